#include "backend/cuda/kernels/fourier/run/fourier_cuda_args.h"

#include "base/error.h"

namespace ingot::kernels {

std::string fourier_cuda_name(const FourierArgs& a, ir::DType type) {
  constexpr std::string_view names[] = {"pair", "of_real", "to_real"};
  return fmt::format("fourier_{}_{}", names[static_cast<size_t>(a.kind)], ir::name_of(type));
}

}  // namespace ingot::kernels
