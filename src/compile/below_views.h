// What is below the views of a value, and in which order.
#pragma once
#include <cstddef>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace ingot::compile {

// Strips views that keep all elements; `maps` receives them, outermost first.
ir::ValueId below_views(const ir::Graph&, ir::ValueId, std::vector<const ir::AffineMap*>* maps = nullptr);

// How far the order of a value's elements is followed.
enum class Below {
  views,       // views and reshapes of a stored value
  operations,  // also operations on elements, which whoever reads the value computes itself
};
// The axis of the value along which elements are neighbours in memory, if what is below is stored row-major. nullopt where the graph does not tell.
std::optional<size_t> innermost(const ir::Graph&, ir::ValueId, Below);
// The last axis that has elements side by side: that of a value stored row-major.
std::optional<size_t> last_axis(const ir::Dims&);

}  // namespace ingot::compile
