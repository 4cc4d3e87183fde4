#include "backend/cuda/kernels/grid_sample/run/grid_sample_cuda_args.h"

#include "base/error.h"

namespace ingot::kernels {

std::string grid_sample_cuda_name(const GridSampleArgs& args, ir::DType type) {
  constexpr const char* outsides[] = {"zeros", "border", "reflection"};
  return fmt::format("grid_sample_{}_{}{}_{}", args.mode == GridSampleArgs::Mode::cubic ? "cubic" : "linear", outsides[static_cast<size_t>(args.outside)],
                     args.corners ? "_corners" : "", ir::name_of(type));
}

}  // namespace ingot::kernels
