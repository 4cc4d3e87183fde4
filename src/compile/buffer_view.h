// Where a value's elements are: a buffer and a strided layout. A view of a value is another layout on the same buffer.
#pragma once
#include <optional>
#include <vector>

#include "ir/graph.h"
#include "ir/strided_layout.h"
#include "plan/plan.h"

namespace ingot::compile {

using ir::row_major;
using ir::StridedLayout;

// Number of elements times the size of the type.
ir::Dim bytes_of(const ir::Type&);
// The layout of view(x) or reshape(x) if x has layout `w`; nullopt if no strides express it.
std::optional<StridedLayout> through_view(const StridedLayout& w, const ir::AffineMap&);
std::optional<StridedLayout> through_reshape(const StridedLayout& w, const ir::Dims& to);
std::optional<StridedLayout> through(const StridedLayout& w, const ir::Graph&, const ir::Node& view_or_reshape);
// The inverse: the layout of x for which view(x) has layout `w`. Only for views that keep every element.
std::optional<StridedLayout> before_view(const StridedLayout& w, const ir::AffineMap&, const ir::Dims& operand);
bool is_bijective(const ir::AffineMap&, const ir::Dims& operand);

struct BufferView {
  plan::BufferId buffer = UINT32_MAX;
  ir::DType dtype = ir::DType::f32;
  StridedLayout layout;
  bool operator==(const BufferView&) const = default;
};
// True if every element is at the same place in both.
bool has_same_elements(const StridedLayout& a, const StridedLayout& b);
// [batch.., M, K] or [batch.., K, N] as an operand of a GEMM with the given batch axes: missing axes and axes of size 1 get stride 0.
BufferView with_batch(BufferView place, const ir::Dims& batch);

}  // namespace ingot::compile
