#include "compile/context.h"

#include <algorithm>
#include <cstdlib>

#include "backend/compiler.h"
#include "base/own_file.h"
#include "compile/buffer_view.h"
#include "compile/encodings/encoding.h"
#include "ir/written.h"
#include "kernels/definition.h"

namespace ingot::compile {

using namespace ir;

Backend backend_for(const Target& target, const Options& options) {
  const std::string& when = options.text("deterministic");
  const auto deterministic = when == "batch" ? backend::Deterministic::batch : when == "off" ? backend::Deterministic::off : backend::Deterministic::run;
  const WeightEncoding* encoding = find_encoding(options.text("weight_dtype"));
  return {target, {deterministic, products_by_tf32(options), convolutions_by_tf32(options), false, machine_of(target, options)}, {}, encoding, options.integer("weight_group")};
}

backend::Offers Backend::offers(const backend::Site& site, bool image_may_be_copied) const {
  backend::Offers out = backend::compiler_for(target).offers(site, target, settings);
  if (!image_may_be_copied) std::erase_if(out.offers, backend::requires_copy);
  if (forced == nullptr) return out;
  for (const backend::Offer& o : out.offers) forced->others.emplace(o.implementation);
  auto is_wanted = [&](const backend::Offer& o) { return o.implementation == forced->name; };
  if (std::any_of(out.offers.begin(), out.offers.end(), is_wanted)) std::erase_if(out.offers, [&](const backend::Offer& o) { return !is_wanted(o); });
  return out;
}

std::shared_ptr<ForcedOffer> forced_offer() {
  const char* name = std::getenv("INGOT_OFFER");
  return name == nullptr || *name == '\0' ? nullptr : std::make_shared<ForcedOffer>(ForcedOffer{name, {}});
}

void report(const ForcedOffer& forced) {
  if (forced.others.contains(forced.name)) return;
  std::string all;
  for (const std::string& name : forced.others) all += (all.empty() ? "" : ", ") + name;
  say_once(fmt::format("INGOT_OFFER={} chooses nothing: no implementation of this name makes an offer here\n  remedy: name one that does: {}", forced.name, all));
}

const backend::Offer* cheapest(const backend::Offers& offers, bool body_may_go, const std::optional<backend::Packing>& packed) {
  auto cost_of = [&](const backend::Offer& o) { return o.cost + (o.takes_body ? 0 : offers.pass); };
  const backend::Offer* best = nullptr;
  for (const backend::Offer& o : offers.offers) {
    if ((!o.takes_body && !body_may_go) || (packed && o.packing != packed)) continue;
    if (best == nullptr || cost_of(o) < cost_of(*best)) best = &o;
  }
  return best;
}

namespace {

// The layout of v in its weight, through views; nullopt if v is not a view of a weight.
std::optional<StridedLayout> layout_on_weight(const Graph& g, ValueId v) {
  const Node& n = g.producer(v);
  if (n.op == Op::weight) return row_major(g.type(v).dims);
  if (!is_view(n.op)) return std::nullopt;
  auto w = layout_on_weight(g, n.in[0]);
  if (!w) return std::nullopt;
  return through(*w, g, n);
}

// True if a view on the way to v may have overlapping windows: two of its axes step along one axis of its operand.
bool has_windows(const Graph& g, ValueId v) {
  for (const Node* n = &g.producer(v); n->op == Op::view; n = &g.producer(n->in[0])) {
    for (const AffineMap::Axis& axis : n->attributes.map("map").axes) {
      if (axis.terms.size() > 1) return true;
    }
  }
  return false;
}

// True if v may be the kernel of a depthwise convolution: it sees no windows, and its numbers repeat along an axis of the product.
bool may_be_kernel(const Graph& g, ValueId v, ValueId product) {
  const Dims &dims = g.type(v).dims, &all = g.type(product).dims;
  if (has_windows(g, v) || dims.size() > all.size()) return false;
  const size_t lead = all.size() - dims.size();
  size_t repeated = 0;
  for (size_t d = 0; d < all.size(); ++d) repeated += !(all[d] == Dim(1)) && (d < lead || dims[d - lead] == Dim(1));
  return repeated > 0;
}

// True if v is a weight that no step writes.
bool is_constant_weight(const Context& c, ValueId v) {
  while (is_plain_view(c.graph, v)) v = c.graph.producer(v).in[0];
  return c.graph.producer(v).op == Op::weight && std::find(c.written.begin(), c.written.end(), v) == c.written.end();
}

// Finds products of windows and a weight, summed over each channel's window, for which the backend has a depthwise kernel.
std::map<ValueId, size_t> find_depthwise(const Context& c) {
  std::map<ValueId, size_t> found;
  const Graph& g = c.graph;
  for (const Node& node : g.nodes) {
    if (node.op != Op::reduce || node.attributes.string("kind") != "sum" || node.attributes.boolean("keep") || node.attributes.integers("axes").empty()) continue;
    const ValueId v = node.in[0];
    const Node& product = g.producer(v);
    if (product.op != Op::mul || c.uses[v] != 1 || !c.backend.has_offer(site_of(backend::DepthwiseConv{{g.type(v).dtype}}))) continue;
    for (size_t i : {size_t{0}, size_t{1}}) {
      const ValueId windows = product.in[i];
      if (g.type(windows).dims == g.type(v).dims && has_windows(g, windows) && may_be_kernel(g, product.in[1 - i], v)) found[node.out[0]] = i;
    }
  }
  return found;
}

// A value, and a node that reads it.
struct Reading {
  ValueId value;
  const Node* reader;
};
// Who reads v through views. nullopt if an output or a node that reads a value twice is among them.
std::optional<std::vector<Reading>> readers_of(const Context& c, ValueId v) {
  std::vector<Reading> found;
  std::vector<ValueId> left{v};
  while (!left.empty()) {
    v = left.back();
    left.pop_back();
    if (c.uses[v] != c.users[v].size()) return std::nullopt;
    for (const NodeId id : c.users[v]) {
      const Node& reader = c.graph.nodes[id];
      if (is_view(reader.op)) {
        left.push_back(reader.out[0]);
      } else {
        found.push_back({v, &reader});
      }
    }
  }
  return found;
}

bool is_image_of_convolution(const Reading& r) { return is_convolution(*r.reader) && r.reader->in[0] == r.value; }

bool is_image_of_depthwise(const Context& c, const Reading& r) {
  if (r.reader->op != Op::mul) return false;
  const std::vector<NodeId>& sums = c.users[r.reader->out[0]];
  if (sums.size() != 1) return false;
  const std::vector<ValueId>& sum = c.graph.nodes[sums[0]].out;
  return !sum.empty() && c.depthwise.contains(sum[0]);
}

// Finds copies of inputs, as concatenations of one part, that only convolutions read, through views: one, or the phases of a transposed one. A depthwise one
// may read a half type.
std::set<ValueId> find_image_copies(const Context& c) {
  std::set<ValueId> found;
  const Graph& g = c.graph;
  for (const Node& node : g.nodes) {
    if (node.op != Op::concat || node.in.size() != 1 || c.is_prepare) continue;
    ValueId from = node.in[0];
    bool widened = false;
    for (; is_plain_view(g, from) || c.widens(g.producer(from)); from = g.producer(from).in[0]) widened = widened || !is_plain_view(g, from);
    if (g.producer(from).op != Op::input) continue;
    const auto readings = readers_of(c, node.out[0]);
    if (!readings) continue;
    const bool one_depthwise = readings->size() == 1 && is_image_of_depthwise(c, readings->front());
    if (one_depthwise || (!widened && std::all_of(readings->begin(), readings->end(), is_image_of_convolution))) found.insert(node.out[0]);
  }
  return found;
}

}  // namespace

Context::Context(Subject subject) : Subject(std::move(subject)), users(graph.users()), uses(graph.values.size(), 0), written(written_by_outputs(graph)) {
  for (const Node& n : graph.nodes) {
    for (ValueId v : n.in) ++uses[v];
  }
  for (const Output& o : graph.outputs) ++uses[o.value];
  for (const Node& n : graph.nodes) {
    auto found = concat_of_b(graph, n, backend);
    if (found && uses[n.in[1]] == 1 && uses[*found] == 1) concats_of_b.insert(*found);
  }
  depthwise = find_depthwise(*this);
  image_copies = find_image_copies(*this);
  for (NodeId id = 0; id < graph.nodes.size() && !is_prepare; ++id) {
    auto b = encoded_b(graph, graph.nodes[id]);
    if (!b || !is_constant_weight(*this, b->numbers)) continue;
    if (b->grouped() && (!is_constant_weight(*this, b->scale) || (b->zero != none_id && !is_constant_weight(*this, b->zero)))) continue;
    backend::Gemm sketch = sketch_of(graph, graph.nodes[id]);
    sketch.constant = true;
    if (backend.has_offer(encoded_sketch(graph, std::move(sketch), *b))) encoded.emplace(id, *b);
  }
}

bool Context::widens(const Node& node) const {
  if (node.op != Op::cast) return false;
  const DType from = graph.type(node.in[0]).dtype, to = graph.type(node.out[0]).dtype;
  return (from == DType::f16 || from == DType::bf16) && to == DType::f32 && backend.has_offer(site_of(backend::DepthwiseConv{{to}, from}));
}

bool is_one_row(const Dims& dims) {
  return !dims.empty() && std::all_of(dims.begin(), dims.end() - 1, [](const Dim& d) { return d == Dim(1); });
}

bool is_plain_view(const Graph& g, ValueId v) {
  const Node& n = g.producer(v);
  return n.op == Op::reshape || (n.op == Op::view && !n.attributes.map("map").fill);
}

backend::Gemm sketch_of(const Graph& g, const Node& matmul) {
  const Dims &a = g.type(matmul.in[0]).dims, &b = g.type(matmul.in[1]).dims, &c = g.type(matmul.out[0]).dims;
  backend::Gemm gemm;
  gemm.type = g.type(matmul.in[0]).dtype;
  gemm.convolution = is_convolution(matmul);
  // With one row in all, the batch axes are dropped.
  gemm.a = backend::unplaced(is_one_row(c) ? Dims{1, a.back()} : a);
  gemm.b = {backend::unplaced(matmul.op == Op::matmul ? Dims{b[b.size() - 2], b.back()} : b)};
  return gemm;
}

backend::Site sketch_of(const Graph& g, const Node& matmul, backend::Gemm gemm) {
  if (matmul.op == Op::matmul) return site_of(std::move(gemm));
  const Type& ends = g.type(matmul.in[2]);
  const backend::Operand row_ends{kernels::Role::row_ends, ends.dtype, backend::unplaced(ends.dims)};
  gemm.row_ends = &row_ends;
  return site_of(std::move(gemm));
}

backend::Site sketch_of(const Graph& g, const Node& node, std::span<const std::byte> constants, size_t first) {
  const kernels::Definition& kernel = *kernels::definition_of(node.op);
  std::vector<ValueId> values(node.in.begin() + static_cast<std::ptrdiff_t>(first), node.in.end());
  const std::vector<kernels::Role> roles = kernel.roles(values.size(), node.out.size());
  values.insert(values.end(), node.out.begin(), node.out.end());
  backend::Site out{backend::Plain{kernel.name, constants}};
  for (size_t k = 0; k < values.size(); ++k) out.operands.push_back({roles[k], g.type(values[k]).dtype, backend::unplaced(g.type(values[k]).dims)});
  return out;
}

std::optional<ValueId> concat_of_b(const Graph& g, const Node& matmul, const Backend& backend) {
  if (matmul.op != Op::matmul) return std::nullopt;
  // Layers store [N, K], so B is the transpose of the concatenation.
  const Node& transpose = g.producer(matmul.in[1]);
  if (transpose.op != Op::view || g.type(matmul.in[1]).dims.size() != 2 || g.type(transpose.in[0]).dims.size() != 2) return std::nullopt;
  const AffineMap& map = transpose.attributes.map("map");
  if (!is_bijective(map, g.type(transpose.in[0]).dims) || map.axes[0].terms.empty() || map.axes[0].terms[0].axis != 1) return std::nullopt;
  const Node& concat = g.producer(transpose.in[0]);
  if (concat.op != Op::concat || concat.attributes.integer("axis") != 0) return std::nullopt;
  backend::Gemm sketch = sketch_of(g, matmul);
  const Dim k = sketch.b[0].dims[0];
  sketch.b.clear();
  std::optional<Dim> step;
  for (ValueId part : concat.in) {
    auto w = layout_on_weight(g, part);
    if (!w || !(w->strides[1] == Dim(1)) || (step && !(w->strides[0] == *step))) return std::nullopt;
    step = w->strides[0];
    sketch.b.push_back(backend::unplaced({k, w->dims[0]}));
  }
  return backend.has_offer(site_of(std::move(sketch))) ? std::optional(concat.out[0]) : std::nullopt;
}

}  // namespace ingot::compile
