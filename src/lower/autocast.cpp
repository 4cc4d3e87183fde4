#include "lower/autocast.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <regex>

#include "base/error.h"
#include "lower/lower.h"
#include "lower/versions.h"

namespace ingot::lower {

using ir::DType;
using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::ValueId;

namespace {

// Names of operators of ATen between spaces.
// Multiplications and sums, which hardware does faster in low precision.
constexpr std::string_view products =
    " linear matmul mm bmm mv dot addmm addmv baddbmm addbmm einsum tensordot inner bilinear conv1d conv2d conv3d convolution conv_transpose1d"
    " conv_transpose2d conv_transpose3d scaled_dot_product_attention ";
// Views of one tensor. A cast goes in front of them, so that all views of a tensor share it.
constexpr std::string_view views =
    " view _unsafe_view reshape transpose permute t unsqueeze squeeze expand select slice narrow flatten unflatten contiguous clone alias detach detach_"
    " movedim swapaxes swapdims numpy_T mT dropout lift_fresh lift_fresh_copy ";
// What follows its operands besides: it loses nothing that its operands' type has not lost.
constexpr std::string_view pointwise =
    " split split_with_sizes chunk unbind view_as reshape_as cat concat stack repeat tile flip roll pad constant_pad_nd reflection_pad1d reflection_pad2d"
    " replication_pad2d index_select gather pixel_shuffle pixel_unshuffle unfold add sub rsub mul div neg abs maximum minimum clamp clamp_min clamp_max"
    " where masked_fill relu relu6 leaky_relu prelu gelu silu mish sigmoid hardsigmoid tanh hardtanh hardswish elu glu max_pool1d max_pool2d max_pool3d"
    " max_pool2d_with_indices avg_pool1d avg_pool2d adaptive_avg_pool1d adaptive_avg_pool2d _adaptive_avg_pool2d adaptive_max_pool2d amax amin"
    " upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_bilinear2d upsample_bicubic2d ";
// What follows its first operand and reads the others (statistics and scales) as they are, in float32.
constexpr std::string_view of_channels = " batch_norm _native_batch_norm_legit_no_training ";

bool has(std::string_view names, std::string_view target) {
  if (!target.starts_with("aten.")) return false;
  target.remove_prefix(5);
  return names.find(fmt::format(" {} ", target.substr(0, target.find('.')))) != names.npos;
}

bool writes(const std::string& target) { return target != "aten.detach_.default" && !functional_name(target).empty(); }

struct Pattern {
  enum Of : uint8_t { anything, node, module } of = anything;
  std::regex text;
  std::string literal;  // the text if it is one word, which needs no regex
};

Pattern pattern_of(std::string_view text) {
  Pattern out;
  std::string_view rest = text;
  if (rest.starts_with("node:")) out.of = Pattern::node, rest.remove_prefix(5);
  if (rest.starts_with("module:")) out.of = Pattern::module, rest.remove_prefix(7);
  if (std::all_of(rest.begin(), rest.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; })) {
    out.literal = rest;
    return out;
  }
  try {
    out.text = std::regex(std::string(rest));
  } catch (const std::regex_error&) {
    throw Error(Code::invalid_option, fmt::format("autocast_exclude has \"{}\", which is not a regular expression", text))
        .fix("a pattern cannot hold a comma, which ends it; \\ takes a sign as it is");
  }
  return out;
}

bool matches(const Pattern& pattern, const Graph& g, const Node& node) {
  auto is = [&](std::string_view text) {
    if (text.empty()) return false;
    return pattern.literal.empty() ? std::regex_match(text.begin(), text.end(), pattern.text) : text == pattern.literal;
  };
  if (pattern.of == Pattern::anything) {
    const std::string& target = node.attributes.string("target");
    const std::string_view whole = target, shorter = whole.substr(0, whole.rfind('.'));
    if (is(whole) || is(shorter) || is(shorter.substr(shorter.find('.') + 1))) return true;
  }
  if (node.origin == ir::none_id) return false;
  const ir::Origin& o = g.origins[node.origin];
  if (pattern.of != Pattern::module && is(o.node)) return true;
  if (pattern.of == Pattern::node) return false;
  for (std::string_view path = o.module; !path.empty(); path = path.substr(0, path.rfind('.') == path.npos ? 0 : path.rfind('.'))) {
    if (is(path)) return true;
  }
  for (std::string_view rest = pattern.of == Pattern::anything ? o.classes : std::string_view(); !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    if (is(one) || is(one.substr(one.rfind('.') + 1))) return true;
  }
  return false;
}

class Caster {
 public:
  Caster(const Graph& g, const Autocast& settings, std::vector<std::string> refused)
      : g_(g), type_(settings.type), low_(g.values.size(), false), refused_(std::move(refused)), patterns_(settings.exclude) {
    for (const std::string& text : patterns_) excluded_.push_back(pattern_of(text));
    for (const Node& n : g.nodes) writes_ = writes_ || (n.op == Op::call && writes(n.attributes.string("target")));
  }

  Cast run() {
    out_.nodes.resize(g_.nodes.size());
    Graph& to = out_.graph;
    to.symbols = g_.symbols;
    to.checks = g_.checks;
    to.origins = g_.origins;
    renamed_.assign(g_.values.size(), ir::none_id);
    for (NodeId id = 0; id < g_.nodes.size(); ++id) {
      const Node& n = g_.nodes[id];
      to.current_origin = n.origin;
      if (n.op == Op::input) {
        copy_input(n.out[0]);
      } else if (n.op == Op::weight) {
        renamed_[n.out[0]] = to.add_weight(*g_.weight_of(n.out[0]), g_.type(n.out[0]));
      } else {
        out_.nodes[id] = decide(id);
        copy_call(id);
      }
    }
    to.current_origin = ir::none_id;
    for (ir::Output o : g_.outputs) {
      o.value = as(o.value, g_.type(o.value).dtype);
      to.outputs.push_back(std::move(o));
    }
    to.expected_sizes = g_.expected_sizes;
    out_.original.resize(to.nodes.size(), ir::none_id);
    return std::move(out_);
  }

 private:
  bool is_f32(ValueId v) const { return g_.type(v).dtype == DType::f32; }
  static Precision stays(std::string reason) { return {false, std::move(reason)}; }

  Precision decide(NodeId id) const {
    const Node& n = g_.nodes[id];
    const std::string& target = n.attributes.string("target");
    const bool numbers = std::any_of(n.in.begin(), n.in.end(), [&](ValueId v) { return is_f32(v); });
    if (!numbers) return {};
    for (size_t i = 0; i < excluded_.size(); ++i) {
      if (matches(excluded_[i], g_, n)) return stays(fmt::format("autocast_exclude has \"{}\"", patterns_[i]));
    }
    if (!refused_[id].empty()) return stays(refused_[id]);
    for (const std::vector<ValueId>* list : {&n.in, &n.out}) {
      for (ValueId v : *list) {
        const DType t = g_.type(v).dtype;
        if (t != DType::f32 && (ir::is_float(t) || ir::is_complex(t))) return stays(fmt::format("it has {} too", ir::torch_name_of(t)));
      }
    }
    if (n.attributes.find("graphs") != nullptr) return stays("what branches and loops run stays in float32");
    if (has(products, target)) return {true, ""};
    // Where tensors are written in place, a value and its views keep one type.
    const bool one = has(of_channels, target);
    if (!one && !has(views, target) && !has(pointwise, target)) return stays("it computes in float32");
    if (writes_) return stays("the graph writes in place, where products alone are cast");
    return follow(n, one);
  }

  Precision follow(const Node& n, bool first_alone) const {
    bool tensors = false, numbers_low = true;
    for (ValueId v : n.in) {
      if (!is_f32(v)) continue;
      if (g_.type(v).dims.empty()) {  // a number does not widen a tensor
        numbers_low = numbers_low && low_[v];
      } else {
        tensors = true;
        if (!low_[v]) return stays(fmt::format("it reads {} in float32", g_.values[v].name));
      }
      if (first_alone) break;
    }
    return tensors || numbers_low ? Precision{true, ""} : stays("it reads a number in float32");
  }

  void copy_input(ValueId v) {
    Graph& to = out_.graph;
    auto found = std::find_if(g_.inputs.begin(), g_.inputs.end(), [&](const ir::Input& i) { return i.value == v; });
    const ir::Input& given = *found;
    renamed_[v] = to.add_input(given.name, g_.type(v), given.order);
    to.nodes[to.values[renamed_[v]].producer].attributes = g_.producer(v).attributes;
    copy_notes(v);
  }

  void copy_notes(ValueId v) {
    out_.graph.values[renamed_[v]].name = g_.values[v].name;
    out_.graph.values[renamed_[v]].order = g_.values[v].order;
  }

  void copy_call(NodeId id) {
    const Node& n = g_.nodes[id];
    const bool low = out_.nodes[id].low, first_alone = has(of_channels, n.attributes.string("target"));
    std::vector<ValueId> in;
    for (size_t i = 0; i < n.in.size(); ++i) {
      const DType recorded = g_.type(n.in[i]).dtype;
      in.push_back(as(n.in[i], low && recorded == DType::f32 && (i == 0 || !first_alone) ? type_ : recorded));
    }
    std::vector<ir::Type> types;
    for (ValueId v : n.out) {
      types.push_back(g_.type(v));
      if (low && is_f32(v) && (!first_alone || v == n.out[0])) types.back().dtype = type_;
    }
    Graph& to = out_.graph;
    to.current_origin = n.origin;
    const NodeId made = to.add_node(n.op, std::move(in), n.attributes, std::move(types));
    out_.original.resize(made, ir::none_id);
    out_.original.push_back(id);
    for (size_t i = 0; i < n.out.size(); ++i) {
      const ValueId v = n.out[i];
      renamed_[v] = to.nodes[made].out[i];
      low_[v] = to.type(renamed_[v]).dtype != g_.type(v).dtype;
      copy_notes(v);
      if (low_[v] && writes_) renamed_[v] = cast(v, renamed_[v], DType::f32), low_[v] = false;
    }
  }

  // The value in this type.
  ValueId as(ValueId v, DType type) {
    if (out_.graph.type(renamed_[v]).dtype == type) return renamed_[v];
    if (writes_) return cast(v, renamed_[v], type);  // what is read is the value of now: nothing is shared
    const auto [made, is_new] = cast_.try_emplace({v, type}, ir::none_id);
    if (!is_new) return made->second;
    const Node& n = g_.producer(v);
    if (n.op == Op::call && n.in.size() == 1 && n.out.size() == 1 && has(views, n.attributes.string("target"))) {
      const ValueId base = as(n.in[0], type);
      ir::Type of_view = g_.type(v);
      of_view.dtype = type;
      const ValueId view = out_.graph.add(n.op, {base}, n.attributes, std::move(of_view));
      out_.graph.values[view].order = g_.values[v].order;
      return cast_[{v, type}] = view;
    }
    return cast_[{v, type}] = cast(v, renamed_[v], type);
  }

  ValueId cast(ValueId original, ValueId value, DType type) {
    ir::Type made = out_.graph.type(value);
    made.dtype = type;
    if (g_.producer(original).op != Op::weight) ++out_.casts;
    const ValueId v = out_.graph.add(Op::call, {value}, {{"dtype", type}, {"self", ir::Ref{0}}, {"target", "aten._to_copy.default"}}, std::move(made));
    out_.graph.values[v].order = g_.values[original].order;
    return v;
  }

  const Graph& g_;
  const DType type_;
  bool writes_ = false;             // some call writes in place
  std::vector<bool> low_;           // per value of g_
  std::vector<std::string> refused_;  // per node of g_: why it does not take the low type
  const std::vector<std::string>& patterns_;
  std::vector<Pattern> excluded_;
  std::vector<ValueId> renamed_;
  std::map<std::pair<ValueId, DType>, ValueId> cast_;
  Cast out_;
};

}  // namespace

std::vector<std::string> names_nothing(const Graph& g, const std::vector<std::string>& patterns) {
  std::vector<std::string> out;
  for (const std::string& text : patterns) {
    const Pattern pattern = pattern_of(text);
    if (std::none_of(g.nodes.begin(), g.nodes.end(), [&](const Node& n) { return n.op == Op::call && matches(pattern, g, n); })) out.push_back(text);
  }
  return out;
}

Cast autocast(const Graph& captured, const Autocast& settings) {
  std::vector<std::string> refused(captured.nodes.size());
  for (;;) {
    Cast made = Caster(captured, settings, refused).run();
    // A definition may refuse a type that it has no rule for.
    bool again = false;
    for (const Missing& m : missing_operators(made.graph)) {
      const NodeId id = made.original[m.node];
      if (id == ir::none_id || !made.nodes[id].low) continue;
      refused[id] = m.reason;
      again = true;
    }
    if (!again) return made;
  }
}

}  // namespace ingot::lower
