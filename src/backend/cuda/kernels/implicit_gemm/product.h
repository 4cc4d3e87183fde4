// Which products cuBLASLt can do, with how much of the body behind them, and which are kernels of ingot's own.
#pragma once
#include "backend/cuda/kernels/implicit_gemm/product_text.h"
#include "backend/emitter.h"

namespace ingot::backend::cuda {

// See Emitter.
bool makes_rows(ir::DType, const ir::Dim& k);
bool takes_columns_apart(ir::DType, bool one_row, const ir::Dim& k, const ir::Dims& columns);
bool takes_halves(ir::DType, const ir::Dim& columns);

// The library's step of a product, or what stands in its way. A pure function. `tf32`: see EmitterSettings.
ProductAnswer emit_product(const backend::Product&, const FusedBody&, const std::vector<StridedLayout>&, bool tf32 = false);

// The same of ingot's own kernel, which takes any body of single elements and reads its left operand through maps; half precision, from sm_80 on.
struct OwnProduct {
  ProductAnswer answer;
  EmittedProduct code;  // when it is taken
};
OwnProduct emit_own_product(const backend::Product&, const FusedBody&, const std::vector<StridedLayout>&, bool large, int only = kernels::ImplicitGemmArgs::by_sizes);

}  // namespace ingot::backend::cuda
