#include "compile/storage/storage.h"

#include <algorithm>

#include "base/error.h"
#include "compile/storage/phases.h"
#include "ir/reshape_groups.h"

namespace ingot::compile {

using namespace ir;

namespace {

bool pads_with_zeros(const Node& node) {
  if (node.op != Op::view) return false;
  const auto& fill = node.attributes.map("map").fill;
  return fill && !fill->is_bool() && fill->to_double() == 0;
}

}  // namespace

StoragePlan plan_storage(const Context& context, Requirements required) {
  StoragePlan s{&context, std::move(required), context.depthwise, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}};
  for (ValueId v : s.required.not_depthwise) s.depthwise.erase(v);
  for (const auto& [sum, side] : s.depthwise) {
    ValueId v = s.graph().producer(s.graph().producer(sum).in[0]).in[side];
    for (; context.uses[v] == 1 && is_view(s.graph().producer(v).op); v = s.graph().producer(v).in[0]) s.windows.insert(v);
  }
  decide(s);
  place(s);
  return s;
}

ValueId StoragePlan::base_of(ValueId v, bool as_windows) const {
  while (!stored[v] && (is_plain_view(graph(), v) || is_read_through(v) || (as_windows && context->widens(graph().producer(v))))) v = graph().producer(v).in[0];
  return v;
}

ValueId StoragePlan::skipped_copy(ValueId v) const {
  while (!stored[v] && !is_read_through(v) && is_view(graph().producer(v).op)) v = graph().producer(v).in[0];
  return is_read_through(v) ? v : none_id;
}

std::optional<BufferView> StoragePlan::resolve(ValueId v, bool as_windows) const {
  const Graph& g = graph();
  if (stored[v]) return places[v];
  const Node& node = g.producer(v);
  if (is_read_through(v)) return resolve(node.in[0], as_windows);
  if (as_windows && context->widens(node)) return resolve(node.in[0]);
  if (!is_plain_view(g, v)) return std::nullopt;
  auto inner = resolve(node.in[0], as_windows);
  if (!inner) return std::nullopt;
  auto w = through(inner->layout, g, node);
  if (!w) return std::nullopt;
  inner->layout = std::move(*w);
  return inner;
}

Outcome<BufferView> StoragePlan::require(ValueId v) const {
  const Graph& g = graph();
  if (auto place = resolve(v)) return std::move(*place);
  // Find the innermost value that stops the chain: not stored, or the operand of a reshape that no strides express.
  for (ValueId at = v;;) {
    const Node& node = g.producer(at);
    if (!is_plain_view(g, at)) return Missing{at};
    if (auto inner = resolve(node.in[0])) return Missing{node.op == Op::reshape && !stored[node.in[0]] ? node.in[0] : at};
    at = node.in[0];
  }
}

ValueId StoragePlan::base_of_a(ValueId v, bool as_windows) const {
  const ValueId base = base_of(v, as_windows);
  if (stored[base] || !pads_with_zeros(graph().producer(base))) return base;
  return base_of(graph().producer(base).in[0], as_windows);
}

bool StoragePlan::has_prologue(const Node& matmul) const {
  const ValueId a = matmul.in[0], base = base_of(a);
  if (matmul.op != Op::matmul || !is_one_row(graph().type(matmul.out[0]).dims) || context->is_prepare || stored[base] || !is_inlined(graph().producer(base))) return false;
  backend::Gemm sketch = this->sketch(matmul);
  sketch.prologue = backend::Gemm::Prologue{};
  return context->backend.has_offer(site_of(std::move(sketch)));
}

std::optional<ValueId> StoragePlan::concat_of_b(const Node& matmul) const {
  const Node& transpose = graph().producer(matmul.in[1]);
  return transpose.op == Op::view && is_unmaterialised(transpose.in[0]) ? std::optional(transpose.in[0]) : std::nullopt;
}

const EncodedB* StoragePlan::encoded(const Node& matmul) const {
  const auto found = context->encoded.find(graph().values[matmul.out[0]].producer);
  return found == context->encoded.end() || required.stored.contains(matmul.in[1]) ? nullptr : &found->second;
}

backend::Gemm StoragePlan::sketch(const Node& matmul) const {
  backend::Gemm out = sketch_of(graph(), matmul);
  if (const EncodedB* b = encoded(matmul)) out.encoding = b->encoding;
  return out;
}

bool StoragePlan::may_be_gated(ValueId gemm, const Dims& dims) const {
  const Node& node = graph().producer(gemm);
  const Dims& whole = graph().type(gemm).dims;
  const bool half =
      is_product(node) && !dims.empty() && dims.size() == whole.size() && std::equal(dims.begin(), dims.end() - 1, whole.begin()) && whole.back() == dims.back() * Dim(2);
  if (!half || context->is_prepare) return false;
  backend::Gemm sketch = this->sketch(node);
  sketch.gated = true;
  // What reads B's parts where they are may have no gated epilogue: a copy of large weights in each run costs more than one saves.
  if (const std::optional<ValueId> concat = node.op == Op::matmul ? concat_of_b(node) : std::nullopt) {
    const Dim k = sketch.b[0].dims[0];
    sketch.b.clear();
    for (ValueId part : graph().producer(*concat).in) sketch.b.push_back(backend::unplaced({k, graph().type(part).dims[0]}));
    return context->backend.has_offer(site_of(std::move(sketch)));
  }
  return context->backend.has_offer(sketch_of(graph(), node, std::move(sketch)));
}

std::optional<Followed> StoragePlan::follow(ValueId v, bool as_windows) const {
  const Graph& g = graph();
  const Dims& dims = g.type(v).dims;
  AffineMap map{dims, {}, std::nullopt};
  for (uint32_t i = 0; i < dims.size(); ++i) map.axes.push_back({0, {{i, 1}}});
  for (ValueId at = v;;) {
    if (auto place = resolve(at, as_windows)) return Followed{std::move(*place), std::move(map)};
    const Node& node = g.producer(at);
    if (!stored[at] && ((as_windows && context->widens(node)) || is_read_through(at))) {
      at = node.in[0];
      continue;
    }
    if (stored[at] || node.op != Op::view) return std::nullopt;
    AffineMap inner = node.attributes.map("map");
    const bool pads = inner.fill.has_value();
    inner.fill.reset();
    map = compose(map, inner);
    at = node.in[0];
    if (!pads) continue;
    auto place = pads_with_zeros(node) ? resolve(at, as_windows) : std::nullopt;
    return place ? std::optional(Followed{std::move(*place), std::move(map)}) : std::nullopt;
  }
}

Outcome<OperandA> StoragePlan::operand_a(ValueId v, const Dims& batch) const {
  const Graph& g = graph();
  if (auto place = resolve(v)) return OperandA{with_batch(std::move(*place), batch), std::nullopt};
  auto plain = [&]() -> Outcome<OperandA> {
    auto place = require(v);
    if (!place) return place.missing();
    return OperandA{with_batch(std::move(*place), batch), std::nullopt};
  };
  const Node& last = g.producer(v);
  if (stored[v]) return plain();
  const ValueId windows = last.op == Op::reshape ? last.in[0] : v;
  std::optional<Followed> followed = follow(windows);
  if (!followed) {
    // Store the value before padding, not the padded copy.
    const Node& pad = g.producer(base_of(windows));
    if (!stored[pad.out[0]] && pads_with_zeros(pad)) {
      if (auto padded = require(pad.in[0]); !padded) return padded.missing();
    }
    return plain();
  }
  const Dims& dims = g.type(windows).dims;
  AffineMap& map = followed->map;
  // Indices: the batch axes, then those of M, then those of K.
  const Dims& matrix = g.type(v).dims;
  auto parts = merged_axes(dims, matrix);
  const size_t own = matrix.size() - 2;
  if (!parts || std::any_of(parts->begin(), parts->begin() + static_cast<int64_t>(own), [](const auto& part) { return part.size() > 1; })) return plain();
  OperandA a{std::move(followed->place), AffineMap{batch, {}, std::nullopt}, 0, windows};
  AffineMap& to = *a.map;
  std::vector<uint32_t> renamed(dims.size(), none_id);
  for (size_t j = 0; j < matrix.size(); ++j) {
    if (j < own) {
      for (size_t axis : (*parts)[j]) renamed[axis] = static_cast<uint32_t>(batch.size() - own + j);
      continue;
    }
    for (size_t axis : (*parts)[j]) {
      renamed[axis] = static_cast<uint32_t>(to.dims.size());
      to.dims.push_back(dims[axis]);
    }
    if ((*parts)[j].empty()) to.dims.push_back(1);
    if (j == own) a.m_rank = to.dims.size() - batch.size();
  }
  for (AffineMap::Axis& axis : map.axes) {
    std::erase_if(axis.terms, [&](const AffineMap::Term& t) { return renamed[t.axis] == none_id; });
    for (AffineMap::Term& t : axis.terms) t.axis = renamed[t.axis];
    std::sort(axis.terms.begin(), axis.terms.end(), [](const auto& x, const auto& y) { return x.axis < y.axis; });
    to.axes.push_back(std::move(axis));
  }
  return a;
}

std::string print(const StoragePlan& s) {
  static constexpr std::string_view kinds[] = {"arena", "binding", "weight", "derived"};
  static constexpr std::string_view why[] = {"computed", "part", "base of an update", "value of an update", "mask", "row"};
  const Graph& g = s.graph();
  std::string out;
  for (ValueId v = 0; v < g.values.size(); ++v) {
    if (!s.stored[v]) continue;
    const BufferView& p = s.places[v];
    if (p.buffer == UINT32_MAX) continue;  // only packed
    const PlannedBuffer& b = s.buffers.list[p.buffer];
    auto list = [&](const Dims& dims) {
      std::string text;
      for (const Dim& d : dims) text += (text.empty() ? "" : ", ") + d.text(g.symbols);
      return text;
    };
    out += fmt::format("%{} {} : buffer {} ({}{})", v, name_of(g.producer(v).op), p.buffer, kinds[static_cast<size_t>(b.kind)],
                       b.kind == plan::Buffer::Kind::arena ? "" : " " + std::to_string(b.index));
    out += fmt::format(" [{}]{{{}}}", list(p.layout.dims), list(p.layout.strides));
    if (!(p.layout.offset == Dim(0))) out += " + " + p.layout.offset.text(g.symbols);
    for (const Root& r : s.roots) {
      if (r.target == v) out += fmt::format(", {} %{}", why[static_cast<size_t>(r.kind)], r.value);
    }
    out += "\n";
  }
  return out;
}

}  // namespace ingot::compile
