// A sum over windows that is written as a scatter (the columns of an image added up) becomes a gather on devices that scatter slowly: each element adds what the windows that it is in have for it.
#include <algorithm>
#include <map>

#include "compile/passes/passes.h"
#include "compile/passes/tuning.h"
#include "ir/compose.h"
#include "ir/replace.h"
#include "kernels/definition.h"

namespace ingot::compile {

using namespace ir;

namespace {

using Terms = std::map<uint32_t, int64_t>;  // axis -> coefficient

std::optional<int64_t> integer(const Graph& g, ValueId v) {
  while (is_view(g.producer(v).op)) v = g.producer(v).in[0];
  const Node& node = g.producer(v);
  if (node.op != Op::literal || !is_integer(g.type(v).dtype)) return std::nullopt;
  return static_cast<int64_t>(node.attributes.scalar("value").to_double());
}

// The value as a sum of multiples of its indices, if it is one. `left`: how many operations may still be looked at. One that is read twice is looked at twice.
std::optional<Terms> terms_of(const Graph& g, ValueId v, int& left) {
  if (--left < 0) return std::nullopt;
  const Node& node = g.producer(v);
  const Dims& dims = g.type(v).dims;
  if (node.op == Op::index) return Terms{{static_cast<uint32_t>(node.attributes.integer("axis")), 1}};
  if (node.op == Op::view && !node.attributes.map("map").fill) {
    const auto of = terms_of(g, node.in[0], left);
    if (!of) return std::nullopt;
    Terms out;
    for (const auto& [axis, coefficient] : *of) {
      const AffineMap::Axis& from = node.attributes.map("map").axes[axis];
      if (!(from.offset == Dim(0))) return std::nullopt;
      for (const AffineMap::Term& t : from.terms) out[t.axis] += coefficient * t.coefficient;
    }
    return out;
  }
  if (node.op == Op::mul) {
    const auto by = integer(g, node.in[1]);
    auto of = by ? terms_of(g, node.in[0], left) : std::nullopt;
    for (auto it = of ? of->begin() : Terms::iterator(); of && it != of->end(); ++it) it->second *= *by;
    return of;
  }
  if (node.op != Op::add) return std::nullopt;
  Terms out;
  for (ValueId in : node.in) {
    const auto of = terms_of(g, in, left);
    if (!of) return std::nullopt;
    const size_t lead = dims.size() - g.type(in).dims.size();  // operands broadcast
    for (const auto& [axis, coefficient] : *of) {
      if (!(g.type(in).dims[axis] == Dim(1))) out[axis + static_cast<uint32_t>(lead)] += coefficient;
    }
  }
  return out;
}

// A scattered axis: place k * dilation + w * stride is in window w.
struct WindowAxis {
  int64_t size, kernel, dilation, stride;
  uint32_t kernel_axis, window_axis;  // of the indices

  // With a stride, elements of one phase (place modulo stride) are in windows in the same way.
  bool has_phases() const { return stride > 1; }
  int64_t phases() const { return (size + stride - 1) / stride; }
  int64_t taps() const { return (kernel + stride - 1) / stride; }
};

std::optional<std::vector<WindowAxis>> windows_of(const Graph& g, const Node& node) {
  if (node.op != Op::scatter || node.attributes.string("kind") != "add") return std::nullopt;
  ValueId base = node.in[0];
  while (is_view(g.producer(base).op)) base = g.producer(base).in[0];
  if (g.producer(base).op != Op::literal || g.producer(base).attributes.scalar("value").to_double() != 0) return std::nullopt;
  const std::vector<int64_t> axes = node.attributes.integers("axes");
  Dims dims;
  for (size_t k = 2; k < node.in.size(); ++k) dims = broadcast(dims, g.type(node.in[k]).dims, g.symbols);
  std::vector<WindowAxis> out;
  std::vector<bool> used(dims.size(), false);
  int64_t taps = 1;
  for (size_t k = 0; k < axes.size(); ++k) {
    int left = tuning::max_operations;
    const auto terms = terms_of(g, node.in[2 + k], left);
    const auto size = g.type(node.out[0]).dims[static_cast<size_t>(axes[k])].constant();
    const size_t lead = dims.size() - g.type(node.in[2 + k]).dims.size();
    if (!terms || terms->size() != 2 || !size) return std::nullopt;
    struct Side {
      uint32_t axis;
      int64_t extent, coefficient;
    };
    std::vector<Side> sides;
    int64_t last = 0;
    for (const auto& [axis, coefficient] : *terms) {
      const auto at = axis + static_cast<uint32_t>(lead);
      const auto extent = dims[at].constant();
      if (!extent || *extent < 1 || coefficient < 1 || used[at]) return std::nullopt;
      used[at] = true;
      last += coefficient * (*extent - 1);
      sides.push_back({at, *extent, coefficient});
    }
    if (last >= *size) return std::nullopt;
    if (sides[1].extent < sides[0].extent) std::swap(sides[0], sides[1]);
    out.push_back({*size, sides[0].extent, sides[0].coefficient, sides[1].coefficient, sides[0].axis, sides[1].axis});
    if (out.back().has_phases() && out.back().dilation > 1) return std::nullopt;
    taps *= out.back().taps();
  }
  if (taps > tuning::max_taps || std::find(used.begin(), used.end(), false) != used.end()) return std::nullopt;
  return out;
}

// The sum over all windows of an element. Of an axis with phases, element q * stride + r is at place r + t * stride of window q - t.
Handle gathered(const Node& node, const Handle& updates, const std::vector<WindowAxis>& windows, const Dims& dims) {
  const std::vector<int64_t> axes = node.attributes.integers("axes");
  const auto position = static_cast<size_t>(node.attributes.integer("position"));
  const size_t indices = 2 * axes.size();
  AffineMap map{{}, std::vector<AffineMap::Axis>(updates.dims().size()), Scalar(0)};
  Dims whole;
  std::vector<uint32_t> first(axes.size());  // result axis of each scattered one
  for (size_t d = 0, rest = 0; d < dims.size(); ++d) {
    const auto found = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d));
    const auto at = static_cast<uint32_t>(map.dims.size());
    if (found == axes.end()) {
      map.axes[rest < position ? rest : rest + indices] = {0, {{at, 1}}};
      map.dims.push_back(dims[d]);
      whole.push_back(dims[d]);
      ++rest;
      continue;
    }
    const WindowAxis& w = windows[static_cast<size_t>(found - axes.begin())];
    first[static_cast<size_t>(found - axes.begin())] = at;
    map.dims.push_back(w.has_phases() ? w.phases() : w.size);
    if (w.has_phases()) map.dims.push_back(w.stride);
    whole.push_back(w.has_phases() ? w.phases() * w.stride : w.size);
  }
  std::vector<int64_t> tap(axes.size(), 0);
  std::optional<Handle> sum;
  for (bool more = true; more;) {
    AffineMap one = map;
    for (size_t k = 0; k < axes.size(); ++k) {
      const WindowAxis& w = windows[k];
      AffineMap::Axis &place = one.axes[position + w.kernel_axis], &window = one.axes[position + w.window_axis];
      place = w.has_phases() ? AffineMap::Axis{tap[k] * w.stride, {{first[k] + 1, 1}}} : AffineMap::Axis{tap[k], {}};
      window = {w.has_phases() ? -tap[k] : -tap[k] * w.dilation, {{first[k], 1}}};
    }
    const Handle read = view(updates, std::move(one));
    sum = sum ? *sum + read : read;
    more = false;
    for (size_t k = axes.size(); k-- > 0 && !more;) {
      more = ++tap[k] < windows[k].taps();
      if (!more) tap[k] = 0;
    }
  }
  Handle out = reshape(*sum, whole);
  for (size_t d = 0; d < dims.size(); ++d) out = view(out, slice_map(out.dims(), static_cast<Axis>(d), 0, dims[d], 1));
  return out;
}

// True if the backend's kernel scatters faster than a fused body adds up what each element reads.
bool scatters(const Graph& g, const Node& node, const Backend& backend) {
  const kernels::PlainStep step = kernels::definition_of(node.op)->plain(g, node);
  return backend.has_offer(sketch_of(g, node, step.constants, step.first));
}

}  // namespace

void scatter_to_gather(Graph& g, const Backend& backend) {
  replace_nodes(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>&) -> std::optional<ValueId> {
    const auto windows = windows_of(g, node);
    if (!windows || scatters(g, node, backend)) return std::nullopt;
    return gathered(node, Handle(&to, in[1]), *windows, g.type(node.out[0]).dims).id();
  });
}

}  // namespace ingot::compile
