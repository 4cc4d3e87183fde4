// Points of values whose axes are merged in the domain, such as the channels of a grouped convolution.
#pragma once
#include <optional>
#include <span>

#include "compile/schedule/body_writer.h"

namespace ingot::compile {

// The point of `v` in the domain of `anchor`, if only pointwise operations, permutations and reshapes that merge axes are between
// them; otherwise nullopt. `itself`: v may be stored.
std::optional<Point> point_over_anchor(const StoragePlan&, ir::ValueId v, ir::ValueId anchor, bool itself);

// Splits the coordinate of a merged axis into those of axes of these sizes; nullopt if its terms do not show them.
std::optional<Point> split_coordinate(Coordinate merged, std::span<const ir::Dim> sizes, const ir::Dims& domain);

}  // namespace ingot::compile
