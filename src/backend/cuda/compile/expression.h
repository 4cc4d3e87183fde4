// Map primitives on one element, as CUDA C++. The types are those of prelude.h.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "backend/body.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "ir/op.h"

namespace ingot::backend::cuda {

// The type of a value of this dtype in a kernel: f32 for half types, int for narrow integers. Error (unsupported) for complex types.
std::string_view value_type(ir::DType);
std::string_view memory_type(ir::DType);

struct Argument {
  ir::DType dtype;
  std::string text;
};

// op(arguments) as a result of `dtype`. `status` is in scope. `for_halves`: the result is stored as a half type, for which a less precise formula is enough.
// Error (unsupported) if the primitive is not defined for the type.
std::string map_expression(ir::Op, ir::DType dtype, std::span<const Argument> arguments, bool for_halves = false);
bool stores_halves(const FusedBody&);
std::string literal(const ir::Scalar&, ir::DType);

}  // namespace ingot::backend::cuda
