// Gives B of GEMMs the form of encoded_b.h: constant float32, float16 and bfloat16 weights if option weight_dtype asks for it, and int8 weights that the model dequantises itself,
// with a scale per column or none.
#include <algorithm>
#include <map>

#include "compile/encodings/encoding.h"
#include "compile/passes/passes.h"
#include "ir/constants.h"
#include "ir/replace.h"

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
    if (wanted_ == nullptr || reads_windows(g_, node.in[0])) return none_id;
    const auto [numbers, scale] = encoded_rows(to, b, renamed);
    Handle decoded = cast(transpose(numbers, 0, 1), DType::f32) * transpose(scale, 0, 1);
    // Without an offer, B is decoded in each run and the GEMM reads it in A's type.
    backend::Gemm sketch = sketch_of(g_, node);
    sketch.encoding = wanted_->encoding;
    sketch.constant = true;
    if (!backend_.has_offer(site_of(std::move(sketch)))) decoded = cast(decoded, type);
    return made->second = decoded.id();
  }

 private:
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
    if (is_new) found->second = wanted_->encode(cast(rows, DType::f32));
    return found->second;
  }

  const Graph& g_;
  const Backend& backend_;
  const WeightEncoding* wanted_;
  const std::vector<bool> free_, constant_;
  std::map<ValueId, ValueId> made_;  // old B -> new B
  std::map<std::pair<ValueId, bool>, EncodedWeight> encoded_;  // weights (or transposes) shared by several GEMMs are encoded once
};

}  // namespace

void encode_weights(Graph& g, const Backend& backend) {
  const bool has_int8 = std::any_of(g.nodes.begin(), g.nodes.end(), [&](const Node& node) { return node.op == Op::cast && is_cast_of_int8(g, node.out[0]); });
  if (backend.weight_encoding == nullptr && !has_int8) return;
  Encoder encoder(g, backend);
  replace_nodes(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>& renamed) -> std::optional<ValueId> {
    const ValueId b = encoder.operand_b(to, node, renamed);
    if (b == none_id) return std::nullopt;
    return to.nodes[to.add_node(Op::matmul, {in[0], b}, node.attributes, {g.type(node.out[0])})].out[0];
  });
}

}  // namespace ingot::compile
