// Calls -> canonical nodes, each result checked against what torch recorded.
#include <algorithm>

#include "base/error.h"
#include "lower/expand/calls.h"
#include "lower/expand/leaves.h"
#include "lower/hold_as_signed.h"
#include "lower/lower.h"

namespace ingot::lower {

using ir::Graph;

namespace {

// What torch.export writes for torch.vmap: steps of torch's interpreter, which run in Python.
bool of_vmap(std::string_view target) { return target.starts_with("torch._functorch.predispatch."); }

std::string said(const Missing& m) { return of_vmap(m.target) ? "torch.vmap: its batches are not in the program" : fmt::format("{}: {}", m.target, m.reason); }

// Whether run_decompositions replaces it by operators that are in the table.
bool is_written_out(const Missing& m) { return of_vmap(m.target) || m.target == "higher_order.wrap_with_autocast"; }

// One error for all operators that are missing.
[[noreturn]] void refuse_model(const std::vector<Missing>& all) {
  // One line for an operator and reason, with the first places where it stands.
  std::string text;
  std::vector<std::string> seen;
  for (const Missing& m : all) {
    std::string key = said(m);
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) continue;
    seen.push_back(key);
    text += "\n  " + key;
    size_t places = 0, more = 0;
    std::vector<std::string> origins;
    for (const Missing& other : all) {
      if (said(other) != key || other.origin.empty()) continue;
      if (std::find(origins.begin(), origins.end(), other.origin) != origins.end()) continue;
      origins.push_back(other.origin);
      if (places < 3) {
        text += "\n    at " + other.origin;
        ++places;
      } else {
        ++more;
      }
    }
    if (more > 0) text += fmt::format("\n    and {} more places", more);
  }
  std::string remedy = std::all_of(all.begin(), all.end(), is_written_out)
                           ? "Save program.run_decompositions(), which writes it out; or ingot.compile(torch.export.load(file)) in Python, which takes it as it is."
                           : "Replace them in the model, or leave this part to PyTorch.";
  if (std::any_of(all.begin(), all.end(), [](const Missing& m) { return draws(m.target); }))
    remedy += " Random numbers outside of branches and loops: ingot.compile(program, fallback=\"error\") in Python makes a plan that draws its own; or give them as an input.";
  throw Error(Code::unsupported, fmt::format("{} operator{} of the model {} not supported:{}", seen.size(), seen.size() == 1 ? "" : "s", seen.size() == 1 ? "is" : "are", text),
              all[0].origin, std::move(remedy));
}

}  // namespace

Graph expand_graph(Expansion& e) {
  e.to.symbols = e.from.symbols;
  e.to.origins = e.from.origins;
  e.to.checks = e.from.checks;
  for (ir::NodeId id = 0; id < e.from.nodes.size(); ++id) {
    const ir::Node& node = e.from.nodes[id];
    if (node.op == ir::Op::input) {
      expand_input(e, node.out[0]);
    } else if (node.op == ir::Op::weight) {
      expand_weight(e, node.out[0]);
    } else {
      expand_call(e, id);
    }
  }
  expand_outputs(e);
  e.to.current_origin = ir::none_id;
  e.to.current_group = 0;
  return std::move(e.to);
}

std::vector<Missing> missing_operators(const Graph& captured, SizesFromData data) {
  Expansion expansion(captured, data);
  expand_graph(expansion);
  return std::move(expansion.missing);
}

Graph expand_operators(const Graph& captured) {
  Expansion expansion(captured, SizesFromData::allowed);
  Graph out = expand_graph(expansion);
  if (!expansion.missing.empty()) refuse_model(expansion.missing);
  for (const ir::Input& input : captured.inputs) {  // one that nothing reads, or that is a result as it is
    const ir::Attribute* reason = captured.producer(input.value).attributes.find("torch_only");
    if (reason != nullptr) throw Error(Code::unsupported, std::get<std::string>(reason->value)).fix("leave this part to PyTorch");
  }
  out.remove_unused();
  hold_as_signed(out);
  return out;
}

}  // namespace ingot::lower
