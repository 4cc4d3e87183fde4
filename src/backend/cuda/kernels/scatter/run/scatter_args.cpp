#include "backend/cuda/kernels/scatter/run/scatter_args.h"

#include "base/error.h"

namespace ingot::kernels {

std::string scatter_cuda_name(ScatterArgs::Kind kind, ir::DType type) {
  constexpr std::string_view names[] = {"set", "add", "mul", "min", "max"};
  return fmt::format("scatter_{}_{}", names[static_cast<size_t>(kind)], ir::name_of(type));
}

}  // namespace ingot::kernels
