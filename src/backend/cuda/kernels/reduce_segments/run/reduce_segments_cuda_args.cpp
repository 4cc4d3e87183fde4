#include "backend/cuda/kernels/reduce_segments/run/reduce_segments_cuda_args.h"

#include "base/error.h"

namespace ingot::kernels {

std::string reduce_segments_cuda_name(const ReduceSegmentsArgs& args, ir::DType type) {
  constexpr std::string_view names[] = {"add", "mul", "min", "max"};
  return fmt::format("segments_{}_{}{}", names[static_cast<size_t>(args.kind)], ir::name_of(type), args.weighted ? "_weighted" : "");
}

}  // namespace ingot::kernels
