// Gives B of GEMMs the form of encoded_b.h: constant float32, float16 and bfloat16 weights if option weight_dtype asks for it, and int8 weights that the model dequantises itself,
// with a scale per column or none.
#include <algorithm>
#include <map>
#include <set>

#include "base/own_file.h"
#include "compile/buffer_view.h"
#include "compile/encodings/encoding.h"
#include "compile/passes/passes.h"
#include "ir/constants.h"
#include "ir/replace.h"
#include "kernels/matmul/run/matmul_args.h"

namespace ingot::compile {

using namespace ir;

namespace {

// A value seen through a map of indices.
struct Viewed {
  ValueId value;
  AffineMap map;
};

AffineMap identity(const Dims& dims) {
  AffineMap map{dims, {}, std::nullopt};
  for (uint32_t i = 0; i < dims.size(); ++i) map.axes.push_back({0, {{i, 1}}});
  return map;
}

void follow_views(const Graph& g, Viewed& at) {
  for (const Node* n = &g.producer(at.value); n->op == Op::view && !n->attributes.map("map").fill; n = &g.producer(at.value)) {
    at.map = compose(at.map, n->attributes.map("map"));
    at.value = n->in[0];
  }
}

// An operand of a pointwise operation, broadcast to its result.
Viewed operand_of(const Graph& g, const Viewed& result, ValueId operand) {
  const Dims &dims = g.type(operand).dims, &all = g.type(result.value).dims;
  AffineMap map{all, {}, std::nullopt};
  const size_t lead = all.size() - dims.size();
  for (size_t d = 0; d < dims.size(); ++d) {
    AffineMap::Axis& axis = map.axes.emplace_back();
    if (!(dims[d] == Dim(1))) axis.terms = {{static_cast<uint32_t>(lead + d), 1}};
  }
  return {operand, compose(result.map, map)};
}

// A matrix [K, N]: int8 integers, possibly concatenated, times a scale per column.
struct Quantised {
  std::vector<Viewed> parts;
  size_t axis = 0;  // of the concatenation, and the view of it
  AffineMap map = {};
  std::optional<Viewed> scale = std::nullopt;
  DType type;
};

std::optional<Quantised> quantised(const Graph& g, ValueId v) {
  if (g.type(v).dims.size() != 2) return std::nullopt;
  Quantised out;
  out.type = g.type(v).dtype;
  Viewed at{v, identity(g.type(v).dims)};
  follow_views(g, at);
  if (const Node& n = g.producer(at.value); n.op == Op::mul) {
    auto is_numbers = [&](ValueId operand) {
      Viewed x = operand_of(g, at, operand);
      follow_views(g, x);
      return is_cast_of_int8(g, x.value);
    };
    const size_t numbers = is_numbers(n.in[0]) ? 0 : 1;
    Viewed scale = operand_of(g, at, n.in[1 - numbers]);
    follow_views(g, scale);
    const bool of_columns = std::all_of(scale.map.axes.begin(), scale.map.axes.end(), [](const AffineMap::Axis& axis) {
      return std::all_of(axis.terms.begin(), axis.terms.end(), [](const AffineMap::Term& t) { return t.axis == 1; });
    });
    if (!of_columns) return std::nullopt;
    out.scale = std::move(scale);
    at = operand_of(g, at, n.in[numbers]);
    follow_views(g, at);
  }
  out.map = at.map;
  const Node& concat = g.producer(at.value);
  std::vector<ValueId> parts{at.value};
  if (concat.op == Op::concat) {
    parts = concat.in;
    out.axis = static_cast<size_t>(concat.attributes.integer("axis"));
  }
  for (ValueId part : parts) {
    Viewed x{part, identity(g.type(part).dims)};
    follow_views(g, x);
    if (!is_cast_of_int8(g, x.value)) return std::nullopt;
    x.value = g.producer(x.value).in[0];
    out.parts.push_back(std::move(x));
  }
  return out;
}

// A matrix [N, K] of 8-bit integers, of which some along K share a scale: what operators that dequantise weights in groups expand to.
struct GroupedRows {
  ValueId numbers;             // [N, G, K / G], or [N, K]
  ValueId scale;               // [N, G], in its own type
  ValueId zero = none_id;      // likewise
  int64_t group = 0;
};

// True for a view of all elements in their order: axes are merged, split, or have one element.
bool keeps_order(const Graph& g, const Node& view) {
  const AffineMap& map = view.attributes.map("map");
  if (map.fill || !is_bijective(map, g.type(view.in[0]).dims)) return false;
  std::vector<uint32_t> order;
  for (const AffineMap::Axis& axis : map.axes) {
    for (const AffineMap::Term& t : axis.terms) order.push_back(t.axis);
  }
  return std::is_sorted(order.begin(), order.end());
}

// Numbers of each block: as [N, G], in their own type, before they were widened and given the axes of a body.
ValueId of_blocks(const Graph& g, ValueId v, const Dims& dims) {
  for (;;) {
    const Node& n = g.producer(v);
    const bool widens = n.op == Op::cast && (g.type(n.in[0]).dtype == DType::i8 || size_of(g.type(n.in[0]).dtype) < size_of(g.type(v).dtype));
    const bool plain = n.op == Op::reshape || (n.op == Op::view && keeps_order(g, n));
    if (g.type(v).dims == dims && !widens) return v;
    if (!widens && !plain) return none_id;
    v = n.in[0];
  }
}

ValueId before_widening(const Graph& g, ValueId v) {
  for (const Node* n = &g.producer(v); n->op == Op::cast && is_float(g.type(n->in[0]).dtype) && size_of(g.type(n->in[0]).dtype) < size_of(g.type(v).dtype); n = &g.producer(v))
    v = n->in[0];
  return v;
}

// The values [N, G, K / G] of which B [K, N] is made: one, or those of several layers side by side. Empty: it has another form.
std::vector<ValueId> groups_behind(const Graph& g, ValueId b) {
  if (const Node& n = g.producer(b); n.op == Op::reshape && g.type(n.in[0]).dims.size() == 3) {
    Viewed at{n.in[0], identity(g.type(n.in[0]).dims)};
    follow_views(g, at);
    const Dims& dims = g.type(at.value).dims;
    const bool fits = dims.size() == 3 && at.map == permute_map(dims, {1, 2, 0});
    return fits ? std::vector{before_widening(g, at.value)} : std::vector<ValueId>();
  }
  Viewed at{b, identity(g.type(b).dims)};
  follow_views(g, at);
  const Dims& dims = g.type(at.value).dims;
  if (dims.size() != 2 || !(at.map == permute_map(dims, {1, 0}))) return {};
  const Node& concat = g.producer(at.value);
  std::vector<ValueId> parts{at.value};
  if (concat.op == Op::concat && concat.attributes.integer("axis") == 0) parts = concat.in;
  for (ValueId& part : parts) {
    part = before_widening(g, part);
    const Node& whole = g.producer(part);
    if (whole.op != Op::reshape || g.type(whole.in[0]).dims.size() != 3 || !(g.type(whole.in[0]).dims[0] == g.type(part).dims[0])) return {};
    part = before_widening(g, whole.in[0]);
  }
  return parts;
}

// `values`: [N, G, K / G]. A rounding to a half type behind the scale is the model's own, and not of this form.
std::optional<GroupedRows> grouped_rows(const Graph& g, ValueId values) {
  const Dims& dims = g.type(values).dims;
  const Node& times = g.producer(values);
  if (times.op != Op::mul || !dims[1].is_constant() || !dims[2].is_constant()) return std::nullopt;
  const Dims blocks{dims[0], dims[1]};
  for (size_t k = 0; k < 2; ++k) {
    GroupedRows out{times.in[k], of_blocks(g, times.in[1 - k], blocks)};
    out.group = dims[2].value();
    if (const Node& minus = g.producer(out.numbers); minus.op == Op::sub) {
      out.numbers = minus.in[0];
      out.zero = of_blocks(g, minus.in[1], blocks);
      if (out.zero == none_id) continue;
    }
    if (out.scale == none_id || !is_cast_of_int8(g, out.numbers) || !(g.type(out.numbers).dims == dims)) continue;
    out.numbers = g.producer(out.numbers).in[0];
    return out;
  }
  return std::nullopt;
}

// True if A is a convolution's input: it has windows, padding or a step.
bool reads_windows(const Graph& g, ValueId a) {
  for (const Node* n = &g.producer(a); n->op == Op::view || n->op == Op::reshape; n = &g.producer(n->in[0])) {
    if (n->op == Op::reshape) continue;
    const AffineMap& map = n->attributes.map("map");
    const bool windows = std::any_of(map.axes.begin(), map.axes.end(), [](const AffineMap::Axis& axis) {
      return axis.terms.size() > 1 || std::any_of(axis.terms.begin(), axis.terms.end(), [](const AffineMap::Term& t) { return t.coefficient != 1; });
    });
    if (map.fill || windows) return true;
  }
  return false;
}

class Encoder {
 public:
  Encoder(const Graph& g, const Backend& backend) : g_(g), backend_(backend), wanted_(backend.weight_encoding), free_(find_constants(g).free), constant_(find_prepared(g)) {}

  // B of a GEMM in the new graph, or none_id to leave it alone.
  ValueId operand_b(Graph& to, const Node& node, const std::vector<ValueId>& renamed) {
    if (node.op != Op::matmul) return none_id;
    const ValueId b = node.in[1];
    if (constant_[node.out[0]] || !constant_[b] || free_[b] || g_.type(b).dims.size() != 2) return none_id;
    const DType type = g_.type(node.in[0]).dtype;
    if (type != DType::f32 && type != DType::f16 && type != DType::bf16) return none_id;
    auto [made, is_new] = made_.try_emplace(b, none_id);
    if (!is_new) return made->second;
    if (auto q = quantised(g_, b)) return made->second = itself(to, *q, renamed);
    if (const auto groups = groups_of_b(to, b, renamed)) made->second = grouped(to, node, *groups, true);
    if (made->second != none_id) return made->second;
    if (wanted_ == nullptr || reads_windows(g_, node.in[0])) {
      note_decoded(b);
      return none_id;
    }
    const Dim k = g_.type(b).dims[0];
    if (wanted_->grouped && (!k.is_constant() || k.value() == 0 || k.value() % backend_.weight_group != 0)) return none_id;
    const auto [numbers, scale] = encoded_rows(to, b, renamed);
    if (wanted_->grouped) return made->second = grouped(to, node, {numbers, scale, std::nullopt}, false);
    Handle decoded = cast(transpose(numbers, 0, 1), DType::f32) * transpose(scale, 0, 1);
    // Without an offer, B is decoded in each run and the GEMM reads it in A's type.
    backend::Gemm sketch = sketch_of(g_, node);
    sketch.encoding = wanted_->encoding;
    sketch.constant = true;
    if (!backend_.has_offer(site_of(std::move(sketch)))) decoded = cast(decoded, type);
    return made->second = decoded.id();
  }

  // Says which weights of integers are floats from the load on, if there are any.
  void say_decoded() const {
    if (decoded_.empty()) return;
    const std::string others = decoded_.size() > 1 ? fmt::format(", and {} more", decoded_.size() - 1) : "";
    say_once(fmt::format("weights of integers become floats when the model is loaded for {}, as no kernel there reads their form: \"{}\"{}", backend_.target.text(),
                         *decoded_.begin(), others));
  }

 private:
  // Notes B if it is computed from a weight of integers that takes fewer bytes.
  void note_decoded(ValueId b) {
    std::vector<ValueId> todo{b};
    for (std::set<ValueId> seen; !todo.empty();) {
      const ValueId v = todo.back();
      todo.pop_back();
      if (!seen.insert(v).second) continue;
      const Weight* weight = g_.weight_of(v);
      const Type& type = g_.type(v);
      if (weight != nullptr && (type.dtype == DType::i8 || type.dtype == DType::u8) && type.dims.size() >= 2) decoded_.insert(weight->name);
      for (ValueId in : g_.producer(v).in) todo.push_back(in);
    }
  }

  struct Groups {
    Handle numbers, scale;  // [N, K], [N, K / group]
    std::optional<Handle> zero;
  };

  // B of a model that encoded its weight in groups: one layer, or several side by side.
  std::optional<Groups> groups_of_b(Graph& to, ValueId b, const std::vector<ValueId>& renamed) const {
    std::vector<Handle> numbers, scales, zeros;
    for (ValueId part : groups_behind(g_, b)) {
      const auto rows = grouped_rows(g_, part);
      if (!rows) return std::nullopt;
      const Dim n = g_.type(part).dims[0], k = g_.type(b).dims[0];
      // Groups that no kernel reads are several smaller ones of one scale.
      int64_t group = std::min<int64_t>(rows->group, UINT8_MAX);
      while (group > 1 && !(kernels::Groups{static_cast<uint8_t>(group)}.valid() && rows->group % group == 0)) --group;
      if (group == 1) return std::nullopt;
      auto of_groups = [&](ValueId v) {
        const Handle x(&to, renamed[v]);
        const Dim blocks = x.dim(1), times = rows->group / group;
        return times == Dim(1) ? x : reshape(expand(reshape(x, {n, blocks, Dim(1)}), {n, blocks, times}), {n, blocks * times});
      };
      numbers.push_back(reshape(Handle(&to, renamed[rows->numbers]), {n, k}));
      scales.push_back(of_groups(rows->scale));
      if (rows->zero != none_id) zeros.push_back(of_groups(rows->zero));
      const bool alike = scales.back().dims()[1] == scales[0].dims()[1] && scales.back().dtype() == scales[0].dtype() && (zeros.empty() || zeros.size() == numbers.size());
      if (!alike) return std::nullopt;
    }
    if (numbers.empty()) return std::nullopt;
    auto joined = [](const std::vector<Handle>& of) { return of.size() > 1 ? ir::concat(of, 0) : of[0]; };
    return Groups{joined(numbers), joined(scales), zeros.empty() ? std::nullopt : std::optional(joined(zeros))};
  }

  // B of groups. If no offer reads the numbers, prepare makes the elements, in A's type: none_id leaves what the model says. Decoding them in each run costs more than all that it saves.
  ValueId grouped(Graph& to, const Node& node, const Groups& x, bool of_model) const {
    const Handle b = grouped_b(x.numbers, x.scale, x.zero);
    backend::Gemm sketch = sketch_of(g_, node);
    sketch.constant = true;
    const auto encoded = encoded_value(to, b.id());
    if (encoded && backend_.has_offer(encoded_sketch(to, std::move(sketch), *encoded))) return b.id();
    if (of_model) return none_id;
    const Dim n = x.numbers.dim(0), k = x.numbers.dim(1), groups = x.scale.dim(1);
    const Handle rows = cast(reshape(x.numbers, {n, groups, Dim(k.value() / groups.value())}), DType::f32) * cast(reshape(x.scale, {n, groups, Dim(1)}), DType::f32);
    return cast(transpose(reshape(rows, {n, k}), 0, 1), g_.type(node.in[0]).dtype).id();
  }

  // For weights that the model quantised itself.
  ValueId itself(Graph& to, const Quantised& q, const std::vector<ValueId>& renamed) const {
    std::vector<Handle> parts;
    for (const Viewed& part : q.parts) parts.push_back(view({&to, renamed[part.value]}, part.map));
    const Handle numbers = parts.size() > 1 ? concat(parts, static_cast<Axis>(q.axis)) : parts[0];
    Handle b = cast(view(numbers, q.map), q.type);
    if (q.scale) {
      AffineMap row = q.scale->map;
      row.dims[0] = 1;
      b = b * view({&to, renamed[q.scale->value]}, row);
    }
    return b.id();
  }

  // Encodes B as [N, K]. Parts of a concatenation are encoded separately, so that changing one weight re-encodes only that one.
  EncodedWeight encoded_rows(Graph& to, ValueId b, const std::vector<ValueId>& renamed) {
    Viewed at{b, identity(g_.type(b).dims)};
    follow_views(g_, at);
    // A convolution's weight of one pixel is transposed too, but has more axes.
    const bool is_transposed = g_.type(at.value).dims.size() == 2 && at.map == permute_map(g_.type(at.value).dims, {1, 0});
    const bool concatenated = is_transposed && g_.producer(at.value).op == Op::concat;
    if (!is_transposed) return rows_once(b, transpose({&to, renamed[b]}, 0, 1), true);
    const Node& concat = g_.producer(at.value);
    if (!concatenated || concat.attributes.integer("axis") != 0) return rows_once(at.value, {&to, renamed[at.value]});
    std::vector<Handle> numbers, scales;
    for (ValueId part : concat.in) {
      const EncodedWeight e = rows_once(part, {&to, renamed[part]});
      numbers.push_back(e.numbers);
      scales.push_back(e.scale);
    }
    return {ir::concat(numbers, 0), ir::concat(scales, 0)};
  }

  EncodedWeight rows_once(ValueId of, const Handle& rows, bool transposed = false) {
    auto [found, is_new] = encoded_.try_emplace({of, transposed});
    if (is_new) found->second = wanted_->encode(cast(rows, DType::f32), backend_.weight_group);
    return found->second;
  }

  const Graph& g_;
  const Backend& backend_;
  const WeightEncoding* wanted_;
  const std::vector<bool> free_, constant_;
  std::map<ValueId, ValueId> made_;  // old B -> new B
  std::set<std::string> decoded_;  // names of weights
  std::map<std::pair<ValueId, bool>, EncodedWeight> encoded_;  // weights (or transposes) shared by several GEMMs are encoded once
};

}  // namespace

void encode_weights(Graph& g, const Backend& backend) {
  auto widens_integers = [&](const Node& node) { return node.op == Op::cast && (g.type(node.in[0]).dtype == DType::i8 || g.type(node.in[0]).dtype == DType::u8); };
  if (backend.weight_encoding == nullptr && std::none_of(g.nodes.begin(), g.nodes.end(), widens_integers)) return;
  Encoder encoder(g, backend);
  replace_nodes(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>& renamed) -> std::optional<ValueId> {
    const ValueId b = encoder.operand_b(to, node, renamed);
    if (b == none_id) return std::nullopt;
    return to.nodes[to.add_node(Op::matmul, {in[0], b}, node.attributes, {g.type(node.out[0])})].out[0];
  });
  encoder.say_decoded();
}

}  // namespace ingot::compile
