#include "backend/cuda/compile/prelude.h"

#include "backend/cuda/compile/gelu_for_half.cuh.h"
#include "backend/cuda/compile/memory.cuh.h"
#include "backend/cuda/compile/reduction.cuh.h"
#include "backend/cuda/compile/scalar.cuh.h"
#include "ir/incomplete_gamma.cuh.h"

#include <string>

namespace ingot::backend::cuda {

std::string_view prelude() {
  static const std::string text = std::string(memory_cuh) + std::string(scalar_cuh) + "#define INGOT_FUNCTION __device__ __noinline__\n" + std::string(incomplete_gamma_cuh) +
                                  std::string(gelu_for_half_cuh) + std::string(reduction_cuh);
  return text;
}

}  // namespace ingot::backend::cuda
