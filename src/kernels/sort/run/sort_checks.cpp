#include "kernels/sort/run/sort_checks.h"

#include <algorithm>

#include "base/error.h"

namespace ingot::kernels {

std::shared_ptr<const void> load_sort(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto args = std::make_shared<SortArgs>(parse_sort(constants));
  if (operands != 3 || sizes != 0) fail(Code::format, "a sort step has {} operands and {} sizes", operands, sizes);
  return args;
}

void check_sort(const Call& call) {
  const auto& args = *static_cast<const SortArgs*>(call.constants);
  const TensorRef &in = call.operands[0], &values = call.operands[1], &indices = call.operands[2];
  bool fits = in.dtype == values.dtype && !is_complex(in.dtype) && indices.dtype == ir::DType::i64 && in.rank == values.rank && in.rank == indices.rank && in.rank <= max_rank &&
              args.axis < std::max(in.rank, 1);
  for (int d = 0; fits && d < in.rank; ++d) {
    fits = values.dims[d] == indices.dims[d] && (d == args.axis ? values.dims[d] <= in.dims[d] : values.dims[d] == in.dims[d]);
  }
  if (!fits) fail(Code::format, "the operands of a sort do not fit");
}

}  // namespace ingot::kernels
