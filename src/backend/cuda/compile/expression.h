// What a map primitive is in CUDA C++, on one element. The types are those of prelude.h.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "backend/body.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "ir/op.h"

namespace ingot::backend::cuda {

// The type a value of this dtype has in a kernel: half types are f32, narrow integers int. Error (unsupported) for complex types.
std::string_view value_type(ir::DType);
std::string_view memory_type(ir::DType);

struct Argument {
  ir::DType dtype;
  std::string text;
};

// op(arguments) as a result of `dtype`. `status` is in scope. `for_halves`: what is stored becomes halves, for which a formula of fewer digits does.
// Error (unsupported) when the primitive has no meaning for the type.
std::string map_expression(ir::Op, ir::DType dtype, std::span<const Argument> arguments, bool for_halves = false);
bool stores_halves(const FusedBody&);
std::string literal(const ir::Scalar&, ir::DType);

}  // namespace ingot::backend::cuda
