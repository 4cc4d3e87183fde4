#include "backend/cuda/kernels/scan/run/scan_args.h"

#include "base/error.h"

namespace ingot::kernels {

std::string scan_cuda_name(ScanArgs::Kind kind, ir::DType type) {
  constexpr std::string_view names[] = {"sum", "prod", "max", "min", "logsumexp"};
  return fmt::format("scan_{}_{}", names[static_cast<size_t>(kind)], ir::name_of(type));
}

}  // namespace ingot::kernels
