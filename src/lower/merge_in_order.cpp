// A reshape that merges axes after a permutation gives them in the order of the model, [N, C, H, W]. Where the innermost parts of its axes have another order
// in memory (the results of a transposed or a grouped convolution: [N, H, phases, W, phases, C]), it merges in that order, and the permutation follows it,
// where layouts are propagated from.
#include <algorithm>
#include <numeric>

#include "ir/reshape_groups.h"
#include "lower/passes.h"
#include "lower/rewrite.h"

namespace ingot::lower {

namespace {

using ir::AffineMap;
using ir::Axes;

// For each axis of a view, where a step along it leads in its operand: the axis, and how far, the farthest first. Axes of size 1 stay with the one before.
std::optional<std::vector<std::pair<size_t, int64_t>>> places_of(const AffineMap& map) {
  std::vector<std::pair<size_t, int64_t>> places(map.dims.size(), {SIZE_MAX, 0});
  for (size_t a = 0; a < map.axes.size(); ++a) {
    if (has_windows(map.axes[a], map.dims)) return std::nullopt;
    for (const AffineMap::Term& t : map.axes[a].terms) {
      if (places[t.axis].first != SIZE_MAX) return std::nullopt;
      places[t.axis] = {a, -std::abs(t.coefficient)};
    }
  }
  for (size_t d = 0; d < places.size(); ++d) {
    if (places[d].first != SIZE_MAX) continue;
    if (!(map.dims[d] == Dim(1))) return std::nullopt;
    places[d] = d > 0 ? places[d - 1] : std::pair<size_t, int64_t>{0, INT64_MIN};
  }
  return places;
}

std::optional<ValueId> merged_in_order(Graph& g, ValueId x, const Dims& dims) {
  const Node& made = maker(g, x);
  if (made.op != Op::view || made.attributes.map("map").fill) return std::nullopt;
  const Dims from = g.type(x).dims;
  const auto groups = ir::merged_axes(from, dims);
  const auto places = places_of(made.attributes.map("map"));
  if (!groups || !places || dims.size() < 3) return std::nullopt;
  // The place of the innermost part of each axis.
  std::vector<std::pair<size_t, int64_t>> key(dims.size(), {0, INT64_MIN});
  for (size_t j = 0; j < dims.size(); ++j) {
    const std::vector<size_t>& group = (*groups)[j];
    const auto inner = std::find_if(group.rbegin(), group.rend(), [&](size_t d) { return !(from[d] == Dim(1)); });
    if (inner != group.rend()) {
      key[j] = (*places)[*inner];
    } else if (j > 0) {
      key[j] = key[j - 1];
    }
  }
  std::vector<size_t> order(dims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key[a] < key[b]; });
  if (order.back() + 1 == dims.size()) return std::nullopt;
  Axes permutation, back(dims.size());
  Dims merged;
  std::vector<bool> taken(from.size(), false);
  for (size_t i = 0; i < order.size(); ++i) {
    back[order[i]] = static_cast<ir::Axis>(i);
    merged.push_back(dims[order[i]]);
    for (size_t d : (*groups)[order[i]]) {
      permutation.push_back(static_cast<ir::Axis>(d));
      taken[d] = true;
    }
  }
  for (size_t d = 0; d < from.size(); ++d) {
    if (!taken[d]) permutation.push_back(static_cast<ir::Axis>(d));  // of size 1
  }
  return ir::permute(ir::reshape(ir::permute(Handle(&g, x), permutation), merged), back).id();
}

}  // namespace

void merge_in_order(Graph& g) {
  rewrite(g, [](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    if (node.op != Op::reshape) return std::nullopt;
    return merged_in_order(to, in[0], node.attributes.dims("dims"));
  });
}

}  // namespace ingot::lower
