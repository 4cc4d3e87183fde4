#include "lower/layout/merges.h"

#include <algorithm>

#include "ir/reshape_groups.h"
#include "lower/tuning.h"

namespace ingot::lower {

namespace {

// True if pointwise work computes the value with the result of a reduction, as a normalisation does.
bool has_reduction(const Graph& g, ValueId v) {
  std::vector<ValueId> seen{v};
  for (size_t k = 0; k < seen.size() && seen.size() < tuning::max_layout_values; ++k) {
    const Node& node = maker(g, seen[k]);
    if (node.op == Op::reduce) return true;
    if (!is_map(node.op) && node.op != Op::view && node.op != Op::reshape) continue;
    for (ValueId in : node.in) {
      if (std::find(seen.begin(), seen.end(), in) == seen.end()) seen.push_back(in);
    }
  }
  return false;
}

}  // namespace

bool merges_strided(const Graph& g, const Node& reshape) {
  const Node& made = maker(g, reshape.in[0]);
  if (made.op != Op::view || made.attributes.map("map").fill) return false;
  const AffineMap& map = made.attributes.map("map");
  const auto steps = steps_of(map);
  const Dims& from = g.type(reshape.in[0]).dims;
  const auto parts = ir::merged_axes(from, g.type(reshape.out[0]).dims);
  if (!steps || !parts) return false;
  for (const std::vector<size_t>& part : *parts) {
    for (size_t k = 0; k + 1 < part.size(); ++k) {
      const auto &outer = (*steps)[part[k]], &inner = (*steps)[part[k + 1]];
      if (!outer || !inner) continue;  // repeats
      const bool whole = inner->axis == outer->axis + 1 && outer->step == 1 && is_all_of(map, part, inner->axis, g.type(made.in[0]).dims[inner->axis]);
      const bool one = inner->axis == outer->axis && Dim(outer->step) == Dim(inner->step) * from[part[k + 1]];
      if (!whole && !one) return true;
    }
  }
  return false;
}

namespace {

// A reshape, perhaps after a view that changes nothing, that merges axes of what was normalised or of what repeats, or is a copy: its operand. Other pointwise work
// gains nothing there: what follows may need the merged axes.
std::optional<ValueId> before_merge(const Graph& g, ValueId v) {
  const Dims& dims = g.type(v).dims;
  while (maker(g, v).op == Op::view && is_identity(maker(g, v).attributes.map("map"), g.type(maker(g, v).in[0]).dims)) v = maker(g, v).in[0];
  const Node& reshape = maker(g, v);
  if (reshape.op != Op::reshape || g.type(reshape.in[0]).dims.size() <= dims.size() || !ir::merged_axes(g.type(reshape.in[0]).dims, dims)) return std::nullopt;
  ValueId from = reshape.in[0];
  bool repeats = false;
  for (; maker(g, from).op == Op::view && !maker(g, from).attributes.map("map").fill; from = maker(g, from).in[0]) {
    const AffineMap& map = maker(g, from).attributes.map("map");
    const auto steps = steps_of(map);
    for (size_t d = 0; steps && d < steps->size(); ++d) repeats = repeats || (!(*steps)[d] && !(map.dims[d] == Dim(1)));
  }
  return repeats || merges_strided(g, reshape) || (is_map(maker(g, from).op) && has_reduction(g, from)) ? std::optional(reshape.in[0]) : std::nullopt;
}

}  // namespace

std::optional<ValueId> map_before_merge(Graph& g, const Node& node, const std::vector<ValueId>& in, const Dims& dims) {
  std::optional<ValueId> found;
  for (ValueId v : in) {
    if (!found && g.type(v).dims == dims) found = before_merge(g, v);
  }
  if (!found) return std::nullopt;
  const Dims split = g.type(*found).dims;
  const auto parts = *ir::merged_axes(split, dims);
  auto split_dims = [&](const Dims& of) {
    const size_t lead = dims.size() - of.size();
    Dims out;
    for (size_t j = lead; j < dims.size(); ++j) {
      if (parts[j].empty()) out.push_back(1);
      for (size_t axis : parts[j]) out.push_back(of[j - lead] == Dim(1) ? Dim(1) : split[axis]);
    }
    return out;
  };
  if (split_dims(dims) != split) return std::nullopt;  // the merge leaves out axes of size 1
  std::vector<ValueId> operands;
  for (ValueId v : in) {
    const Dims wanted = split_dims(g.type(v).dims);
    const std::optional<ValueId> before = before_merge(g, v);
    operands.push_back(before && g.type(*before).dims == wanted ? *before : ir::reshape(Handle(&g, v), wanted).id());
  }
  ir::Type type = infer(g, node.op, operands, node.attributes)[0];
  return ir::reshape(Handle(&g, g.add(node.op, operands, node.attributes, std::move(type))), dims).id();
}

}  // namespace ingot::lower
