#include "backend/cuda/kernels/moments/run/moments_args.h"

#include "base/error.h"

namespace ingot::kernels {

std::string moments_cuda_name(ir::DType type) { return fmt::format("moments_{}", ir::name_of(type)); }

}  // namespace ingot::kernels
