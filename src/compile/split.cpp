#include "compile/split.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "compile/buffer_view.h"
#include "compile/context.h"
#include "compile/encoded_b.h"
#include "ir/compose.h"
#include "ir/constants.h"
#include "ir/written.h"

namespace ingot::compile {

using namespace ir;

namespace {

std::vector<bool> find_constant(const Graph& g, const Constants& known, const std::vector<bool>& decoded) {
  std::vector<bool> written(g.values.size(), false), constant(g.values.size(), false);  // a buffer that is written is not constant
  for (ValueId leaf : written_by_outputs(g)) {
    if (leaf != none_id) written[leaf] = true;
  }
  for (const Node& node : g.nodes) {
    bool all = node.op != Op::input && !(node.op == Op::weight && written[node.out[0]]);
    for (ValueId v : node.in) all = all && (constant[v] || known.free[v]);
    for (ValueId v : node.out) constant[v] = all && !decoded[v] && !known.sized[v] && (!known.free[v] || known.table[v]);
  }
  return constant;
}

// True for the values that GEMMs decode from an encoded B, unless they are constant themselves.
std::vector<bool> find_decoded(const Graph& g) {
  std::vector<bool> decoded(g.values.size(), false);
  const std::vector<bool> constant = find_constant(g, find_constants(g), decoded);
  for (const Node& node : g.nodes) {
    if (node.op != Op::matmul || constant[node.out[0]]) continue;
    for (ValueId v : decoding(g, node)) decoded[v] = true;
  }
  return decoded;
}

class Splitter {
 public:
  Splitter(const Graph& g, const Backend& backend, uint32_t first)
      : g_(g),
        backend_(backend),
        first_(first),
        known_(find_constants(g)),
        decoded_(find_decoded(g)),
        constant_(find_constant(g, known_, decoded_)),
        in_main_(g.values.size(), none_id),
        in_prepare_(g.values.size(), none_id) {}

  Split run() {
    out_.main.symbols = g_.symbols;
    out_.main.origins = g_.origins;
    out_.main.checks = g_.checks;
    out_.prepare.origins = g_.origins;
    for (const Input& input : g_.inputs) in_main_[input.value] = out_.main.add_input(input.name, g_.type(input.value), input.order);
    for (const Node& node : g_.nodes) {
      // Generated values are copied to each use, since prepare needs some of them alone. So are decoded values, since a packed B does not need them.
      if (is_leaf(node.op) || all_constant(node) || (!node.out.empty() && (known_.free[node.out[0]] || decoded_[node.out[0]]))) continue;
      copy_main(node);
    }
    for (ValueId leaf : written_by_outputs(g_)) {
      if (leaf != none_id) main(leaf);  // a leaf may be written but never read
    }
    for (const Output& o : g_.outputs) out_.main.outputs.push_back({main(o.value), o.name, o.order, o.to});
    for (DerivedTensor& d : out_.derived) out_.prepare.outputs.push_back({d.made, d.name, {}});
    verify(out_.prepare, Level::canonical);  // it has no symbols, so a dynamic size fails here
    out_.derived_leaf.resize(out_.main.values.size(), none_id);
    out_.packed_operand.resize(out_.main.nodes.size(), none_id);
    return std::move(out_);
  }

 private:
  bool all_constant(const Node& node) const {
    for (ValueId v : node.out) {
      if (!constant_[v]) return false;
    }
    return !node.out.empty();
  }

  // Copies the node to another graph; its operands are there already.
  ValueId copy(Graph& to, std::vector<ValueId>& map, const Node& node, ValueId wanted) {
    std::vector<ValueId> in;
    for (ValueId v : node.in) in.push_back(map[v]);
    std::vector<Type> types;
    for (ValueId v : node.out) types.push_back(g_.type(v));
    to.current_origin = node.origin;
    to.current_group = node.group;
    NodeId id = to.add_node(node.op, std::move(in), node.attributes, std::move(types));
    for (size_t i = 0; i < node.out.size(); ++i) map[node.out[i]] = to.nodes[id].out[i];
    return map[wanted];
  }

  // Copies a value and everything that it depends on to another graph; `leaf` maps values that are not copied. Iterative, as chains may be long.
  template <class Leaf>
  ValueId copy_with_operands(Graph& to, std::vector<ValueId>& map, ValueId wanted, Leaf leaf) {
    for (std::vector<ValueId> todo{wanted}; !todo.empty();) {
      ValueId v = todo.back();
      const Node& node = g_.producer(v);
      if (map[v] == none_id) map[v] = leaf(v);
      auto missing = std::find_if(node.in.begin(), node.in.end(), [&](ValueId in) { return map[in] == none_id; });
      if (map[v] == none_id && missing != node.in.end()) {
        todo.push_back(*missing);
        continue;
      }
      if (map[v] == none_id) copy(to, map, node, v);
      todo.pop_back();
    }
    return map[wanted];
  }

  ValueId add_weight(Graph& to, ValueId v) {
    Weight w = *g_.weight_of(v);
    return to.add_weight(std::move(w), g_.type(v));
  }

  ValueId prepare(ValueId wanted) {
    return copy_with_operands(out_.prepare, in_prepare_, wanted, [&](ValueId v) { return g_.producer(v).op == Op::weight ? add_weight(out_.prepare, v) : none_id; });
  }

  // A value in main: computed constants become leaves.
  ValueId main(ValueId wanted) {
    return copy_with_operands(out_.main, in_main_, wanted, [&](ValueId v) {
      const Op op = g_.producer(v).op;
      if (op == Op::weight) return add_weight(out_.main, v);
      return !constant_[v] || is_view(op) ? none_id : leaf_of(v, derive(v));
    });
  }

  ValueId leaf_of(ValueId v, uint32_t derived) { return leaf_of(g_.type(v), derived); }

  ValueId leaf_of(Type type, uint32_t derived) {
    Weight leaf;
    leaf.name = out_.derived[derived - first_].name;
    ValueId made = out_.main.add_weight(std::move(leaf), std::move(type));
    out_.derived_leaf.resize(made + 1, none_id);
    out_.derived_leaf[made] = derived;
    return made;
  }

  // True if `v` is a convolution's kernel whose elements would have to be reordered or padded in each run, by a GEMM or by a depthwise convolution. A GEMM
  // reads a kernel that is contiguous along K as it is, and one that is contiguous along its columns unless the backend prefers K.
  bool is_kernel(const Node& reader, ValueId v) const {
    std::vector<const Node*> views;
    for (; is_view(g_.producer(v).op); v = g_.producer(v).in[0]) views.push_back(&g_.producer(v));
    if (views.empty()) return false;
    std::optional<StridedLayout> w = row_major(g_.type(v).dims);
    for (size_t k = views.size(); k-- > 0;) {
      const Node& n = *views[k];
      if (n.op == Op::view && n.attributes.map("map").fill) return reader.op == Op::matmul;  // padded columns: no layout of the weight
      w = through(*w, g_, n);
      if (!w) return true;
    }
    const std::vector<Dim>& strides = w->strides;
    const bool of_gemm = reader.op == Op::matmul, along_k = of_gemm && strides[strides.size() - 2] == Dim(1);
    const size_t least = of_gemm ? 4 : 3;  // axes of a kernel; a GEMM's weight with three axes is a batch of matrices
    if (g_.type(v).dims.size() < least || strides.back() == Dim(0) || along_k) return false;
    return !(strides.back() == Dim(1)) || (of_gemm && prefers_along_k(reader));
  }

  // `swapped`: with the last two axes exchanged.
  uint32_t derive(ValueId v, std::optional<backend::Packing> packing = std::nullopt, bool swapped = false) {
    auto [found, made] = index_.try_emplace({v, packing ? packing->kernel : swapped ? "swapped" : ""}, first_ + static_cast<uint32_t>(out_.derived.size()));
    if (!made) return found->second;
    const Type& t = g_.type(v);
    DerivedTensor d;
    d.name = (packing ? "packed." : "derived.") + std::to_string(found->second);
    d.packing = packing;
    if (packing) {
      std::vector<int64_t> sizes;
      for (const Dim& dim : t.dims) sizes.push_back(dim.value());
      d.bytes = storage_bytes(packing->encoding, sizes);
    } else {
      d.bytes = bytes_of(t).value();
    }
    if (packing && packing->write != nullptr) {
      std::vector<Handle> in;
      for (ValueId operand : packed_operands(g_, v, *packing)) in.push_back({&out_.prepare, prepare(operand)});
      d.made = packing->write(packing->encoding, in).id();
    } else {
      d.made = prepare(v);
    }
    if (swapped) d.made = transposed({&out_.prepare, d.made}).id();
    out_.derived.push_back(std::move(d));
    return found->second;
  }

  // The value in main of a convolution's kernel, in the order in which B is read.
  ValueId in_order(const Node& reader, ValueId v) {
    if (reader.op != Op::matmul || !prefers_along_k(reader)) return leaf_of(v, derive(v));
    const uint32_t derived = derive(v, std::nullopt, true);
    return transposed({&out_.main, leaf_of(out_.prepare.type(out_.derived[derived - first_].made), derived)}).id();
  }

  static Handle transposed(const Handle& matrix) {
    const int rank = static_cast<int>(matrix.dims().size());
    return transpose(matrix, rank - 2, rank - 1);
  }

  // True if prepare computes B and could store it contiguous along K, but main would read it in another order.
  bool is_computed_across(ValueId v) const {
    std::vector<const Node*> views;
    for (; is_view(g_.producer(v).op); v = g_.producer(v).in[0]) views.push_back(&g_.producer(v));
    if (is_leaf(g_.producer(v).op)) return false;
    std::optional<StridedLayout> w = row_major(g_.type(v).dims);
    for (size_t k = views.size(); w && k-- > 0;) w = through(*w, g_, *views[k]);
    return w && !(w->strides[w->strides.size() - 2] == Dim(1));
  }

  // True if the backend prefers a constant B of this GEMM contiguous along K.
  bool prefers_along_k(const Node& node) const {
    backend::Gemm sketch = sketch_of(g_, node);
    sketch.constant = true;
    const backend::Offers found = backend_.offers(site_of(std::move(sketch)));
    return std::any_of(found.offers.begin(), found.offers.end(), [](const backend::Offer& o) { return wishes(o, kernels::Role::b, backend::Wish::Axis::k); });
  }

  ValueId decoded(const Handle& numbers, ValueId scale, DType type) {
    const Handle b = cast(numbers, type);
    return (scale == none_id ? b : b * Handle(&out_.main, scale)).id();
  }

  // The packing that the cheapest offer wants for the GEMM's constant B, if any. The schedule then chooses among offers that read this packing.
  std::optional<backend::Packing> packing_of(const Node& node, const std::optional<EncodedB>& encoded) const {
    if (!is_product(node) || !constant_[encoded ? encoded->numbers : node.in[1]]) return std::nullopt;
    if (encoded && encoded->grouped() && !(constant_[encoded->scale] && (encoded->zero == none_id || constant_[encoded->zero]))) return std::nullopt;
    const Dims& b = g_.type(node.in[1]).dims;
    if (node.op == Op::matmul && !std::all_of(b.begin(), b.end() - 2, [](const Dim& d) { return d == Dim(1); })) return std::nullopt;
    backend::Gemm sketch = sketch_of(g_, node);
    sketch.constant = true;
    const backend::Offers offers = backend_.offers(encoded ? encoded_sketch(g_, std::move(sketch), *encoded) : sketch_of(g_, node, std::move(sketch)));
    const backend::Offer* best = cheapest(offers, true);
    return best == nullptr ? std::nullopt : best->packing;
  }

  void copy_main(const Node& node) {
    const std::optional<EncodedB> encoded = encoded_b(g_, node);
    if (auto packing = packing_of(node, encoded)) {
      // A packed operand of groups holds their scales: it is all of B.
      const bool whole = !encoded || encoded->grouped();
      const ValueId matrix = whole ? node.in[1] : encoded->numbers;
      uint32_t index = derive(matrix, packing);
      std::vector<ValueId> in(node.in.size());
      for (size_t i = 0; i < in.size(); ++i) in[i] = i == 1 ? none_id : main(node.in[i]);
      const ValueId scale = !whole && encoded->scale != none_id ? main(encoded->scale) : none_id;
      out_.main.current_origin = node.origin;
      out_.main.current_group = node.group;
      // A packed operand is a leaf in the operand's place, so that type inference still works.
      ValueId b = leaf_of(matrix, index);
      if (!whole) b = decoded({&out_.main, b}, scale, g_.type(node.in[1]).dtype);
      in[1] = b;
      NodeId id = out_.main.add_node(node.op, std::move(in), node.attributes, {g_.type(node.out[0])});
      in_main_[node.out[0]] = out_.main.nodes[id].out[0];
      out_.packed_operand.resize(id + 1, none_id);
      out_.packed_operand[id] = index;
      return;
    }
    if (node.out.empty() || in_main_[node.out[0]] != none_id) return;
    if (auto found = concat_of_b(g_, node, backend_); found && constant_[*found]) {
      // Gives this GEMM a concatenation of its own, which is never materialised. Other users share the one that prepare computes.
      const ValueId transpose = node.in[1], concat = *found;
      const std::pair shared(in_main_[transpose], in_main_[concat]);
      for (const Node* own : {&g_.producer(concat), &g_.producer(transpose), &node}) copy_with_operands(*own);
      std::tie(in_main_[transpose], in_main_[concat]) = shared;
      return;
    }
    for (size_t i = node.op == Op::matmul ? 1 : 0; i < node.in.size() && (node.op == Op::matmul || node.op == Op::mul); ++i) {
      const ValueId v = node.in[i];
      if (!constant_[v] || in_main_[v] != none_id) continue;
      if (is_kernel(node, v) || (node.op == Op::matmul && is_computed_across(v) && prefers_along_k(node))) in_main_[v] = in_order(node, v);
    }
    copy_with_operands(node);
  }

  void copy_with_operands(const Node& node) {
    for (ValueId v : node.in) main(v);
    copy(out_.main, in_main_, node, node.out[0]);
  }

  const Graph& g_;
  const Backend& backend_;
  const uint32_t first_;
  Split out_;
  const Constants known_;
  const std::vector<bool> decoded_, constant_;
  std::vector<ValueId> in_main_, in_prepare_;
  std::map<std::pair<ValueId, std::string_view>, uint32_t> index_;  // by value, and packing or whether its axes are swapped
};

}  // namespace

std::vector<bool> find_prepared(const Graph& g) { return find_constant(g, find_constants(g), find_decoded(g)); }

Split split(const Graph& g, const Backend& backend, uint32_t first) { return Splitter(g, backend, first).run(); }

}  // namespace ingot::compile
