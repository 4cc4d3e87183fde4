#include "backend/cuda/compile/prelude.h"

#include "backend/cuda/compile/gelu_for_half.cuh.h"
#include "backend/cuda/compile/memory.cuh.h"
#include "backend/cuda/compile/reduction.cuh.h"
#include "backend/cuda/compile/scalar.cuh.h"
#include "base/error.h"
#include "ir/incomplete_gamma.cuh.h"

namespace ingot::backend::cuda {

std::string_view prelude() {
  static const std::string text = std::string(memory_cuh) + std::string(scalar_cuh) + std::string(gelu_for_half_cuh) + std::string(reduction_cuh);
  return text;
}

std::string with_prelude(std::string_view kernels) {
  std::string out(prelude());
  if (kernels.find("incomplete_gamma(") != std::string_view::npos) out += fmt::format("#define INGOT_FUNCTION __device__ __noinline__\n{}", incomplete_gamma_cuh);
  return out.append(kernels);
}

}  // namespace ingot::backend::cuda
