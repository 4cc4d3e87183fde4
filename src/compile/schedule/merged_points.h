// Points of values whose axes are merged axes of the domain: the channels of a grouped convolution are those of each group, group by group.
#pragma once
#include <optional>
#include <span>

#include "compile/schedule/body_writer.h"

namespace ingot::compile {

// The point of `v` where the domain is that of `anchor`: between them are operations on elements, permutations and reshapes that merge axes. `itself`: v may be
// stored. nullopt where there is more.
std::optional<Point> point_over_anchor(const StoragePlan&, ir::ValueId v, ir::ValueId anchor, bool itself);

// The coordinates of axes of these sizes from the one of the axis that they were merged to. nullopt where they are not seen in its terms.
std::optional<Point> taken_apart(Coordinate merged, std::span<const ir::Dim> sizes, const ir::Dims& domain);

}  // namespace ingot::compile
