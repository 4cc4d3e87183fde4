#include "partition/choice.h"

#include "base/error.h"
#include "base/text.h"

namespace ingot::partition {

using ir::Graph;
using ir::NodeId;
using ir::Op;

namespace {

const ir::Origin* origin(const Graph& g, NodeId n) { return g.nodes[n].origin == ir::none_id ? nullptr : &g.origins[g.nodes[n].origin]; }

bool names_operator(std::string_view wanted, std::string_view target, std::string_view node) {
  if (wanted.starts_with("torch.ops.")) wanted.remove_prefix(10);
  if (wanted.ends_with(".default") && wanted == target) return true;
  return wanted == target || wanted == without_overload(target) || wanted == without_namespace(without_overload(target)) || wanted == without_namespace(target) || wanted == node;
}

bool names_module(std::string_view wanted, const ir::Origin& o) {
  if (o.module == wanted || (o.module.starts_with(wanted) && o.module.size() > wanted.size() && o.module[wanted.size()] == '.')) return true;
  for (std::string_view rest = o.classes; !rest.empty();) {
    std::string_view one = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    if (one == wanted || (one.ends_with(wanted) && one.size() > wanted.size() && one[one.size() - wanted.size() - 1] == '.')) return true;
  }
  return false;
}

void keep_operators(Choice& choice, const Graph& g, const Settings& settings) {
  for (const std::string& name : settings.torch_ops) {
    bool found = false;
    for (NodeId n = 0; n < g.nodes.size(); ++n) {
      if (g.nodes[n].op != Op::call || !names_operator(name, target(g, n), origin(g, n) ? origin(g, n)->node : "")) continue;
      found = true;
      choice.stay(n, fmt::format("torch_executed_ops names {}", name));
    }
    if (!found) {
      std::vector<std::string_view> names;
      for (NodeId n = 0; n < g.nodes.size(); ++n) {
        if (g.nodes[n].op == Op::call) names.push_back(target(g, n));
      }
      Error problem(Code::invalid_option, fmt::format("torch_executed_ops names \"{}\", which is not an operator or node of this model", name));
      std::string_view near = nearest(name, names);
      throw problem.fix(near.empty() ? "`ingot.explain` lists the model's operators" : fmt::format("did you mean \"{}\"?", near));
    }
  }
}

void keep_modules(Choice& choice, const Graph& g, const Settings& settings) {
  for (const std::string& name : settings.torch_modules) {
    bool found = false;
    for (NodeId n = 0; n < g.nodes.size(); ++n) {
      if (g.nodes[n].op != Op::call || origin(g, n) == nullptr || !names_module(name, *origin(g, n))) continue;
      found = true;
      choice.stay(n, fmt::format("torch_executed_modules names {}", name));
    }
    if (!found) {
      throw Error(Code::invalid_option, fmt::format("torch_executed_modules names \"{}\", which is not a module or module class of this model", name))
          .fix("give the path of a module (\"encoder.layer.0\") or its class (\"BertLayer\")");
    }
  }
}

}  // namespace

Choice::Choice(const Graph& g, const std::vector<Refused>& refused) : here(g.nodes.size(), false), reason(g.nodes.size()) {
  for (NodeId n = 0; n < g.nodes.size(); ++n) here[n] = g.nodes[n].op == Op::call;
  for (const Refused& r : refused) stay(r.node, r.reason);
}

void Choice::stay(NodeId n, std::string why) {
  if (!here[n]) return;
  here[n] = false;
  reason[n] = std::move(why);
}

void keep_named(Choice& choice, const Graph& g, const Settings& settings) {
  keep_operators(choice, g, settings);
  keep_modules(choice, g, settings);
}

}  // namespace ingot::partition
