// Where a value's elements are: a strided window on a buffer. Views move through windows without moving data.
#pragma once
#include <optional>
#include <vector>

#include "ir/graph.h"
#include "plan/plan.h"

namespace ingot::compile {

struct Window {
  ir::Dims dims;
  ir::Dim offset = 0;             // elements
  std::vector<ir::Dim> strides;   // elements, one per axis
};

Window row_major(const ir::Dims&);
// The window of view(x) or reshape(x) when x has window `w`; nothing when no strides express it.
std::optional<Window> through_view(const Window& w, const ir::AffineMap&);
std::optional<Window> through_reshape(const Window& w, const ir::Dims& to);
std::optional<Window> through(const Window& w, const ir::Graph&, const ir::Node& view_or_reshape);
// The reverse: the window x must have so that view(x) has window `w`. Only for views that keep every element.
std::optional<Window> before_view(const Window& w, const ir::AffineMap&, const ir::Dims& operand);
bool is_bijective(const ir::AffineMap&, const ir::Dims& operand);

struct Place {
  plan::BufferId buffer = UINT32_MAX;
  ir::DType dtype = ir::DType::f32;
  Window window;
};
// [batch.., M, K] or [batch.., K, N] as the operand of a product with the given batch: missing and size-1 axes get stride 0.
Place with_batch(Place place, const ir::Dims& batch);

}  // namespace ingot::compile
