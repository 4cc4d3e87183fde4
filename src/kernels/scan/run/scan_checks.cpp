#include "kernels/scan/run/scan_checks.h"

#include <algorithm>

#include "base/error.h"

namespace ingot::kernels {

std::shared_ptr<const void> load_scan(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto args = std::make_shared<ScanArgs>(parse_scan(constants));
  if (operands != 2 || sizes != 0) fail(Code::format, "a scan step has {} operands and {} sizes", operands, sizes);
  return args;
}

void check_scan(const Call& call) {
  const auto& args = *static_cast<const ScanArgs*>(call.constants);
  const TensorRef &in = call.operands[0], &out = call.operands[1];
  bool same = in.dtype == out.dtype && in.rank == out.rank && in.rank <= max_rank && !is_complex(in.dtype) && std::equal(in.dims, in.dims + in.rank, out.dims);
  if (!same || args.axis >= std::max(in.rank, 1)) fail(Code::format, "the operands of a scan do not fit");
  if (args.kind == ScanArgs::Kind::logsumexp && !ir::is_float(in.dtype)) fail(Code::format, "logsumexp of integers");
}

}  // namespace ingot::kernels
