// How a reshape splits and merges axes: the smallest groups of neighbouring axes, of the operand and of the result, that hold the
// same elements. An axis of size 1 is in no group: its index is always 0, so no part of another index may go to it.
#pragma once
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace ingot::ir {

struct ReshapeGroup {
  std::vector<size_t> from, to;  // axes of the operand and of the result, outermost first
  bool equal = true;             // false for a last group whose sizes are equal by a check at run time alone; one side of it may be empty
};

// In order.
std::vector<ReshapeGroup> reshape_groups(const Dims& from, const Dims& to);

// A reshape that is a view: each group splits one axis. nullopt for one that merges, or splits by sizes that are not known.
std::optional<AffineMap> split_map(const Dims& from, const Dims& to);

// For a reshape that only merges: the axes of the operand in each axis of the result, none in one of size 1. nullopt for one that splits.
std::optional<std::vector<std::vector<size_t>>> merged_axes(const Dims& from, const Dims& to);

// A view of merged axes as a view of what was merged: `map` reads an operand of shape `merged`, the result one of shape `from`. The index of a merged
// axis is split into indices of its axes. nullopt where these are not affine functions, or are not known to be.
std::optional<AffineMap> before_merge(const AffineMap& map, const Dims& from, const Dims& merged);

}  // namespace ingot::ir
