#include "kernels/moments/run/moments_args.h"

#include <algorithm>

#include "base/error.h"

namespace ingot::kernels {

std::vector<std::byte> serialise(const MomentsArgs& a) {
  std::vector<std::byte> out;
  for (uint8_t r : a.reduced) out.push_back(std::byte{r});
  return out;
}

MomentsArgs parse_moments(std::span<const std::byte> bytes) {
  MomentsArgs out;
  for (std::byte b : bytes) out.reduced.push_back(static_cast<uint8_t>(b));
  const bool flags = std::all_of(out.reduced.begin(), out.reduced.end(), [](uint8_t r) { return r <= 1; });
  if (!flags || out.reduced.size() > max_rank || std::count(out.reduced.begin(), out.reduced.end(), 1) == 0) fail(Code::format, "a moments step has wrong constants");
  return out;
}

std::shared_ptr<const void> load_moments(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto args = std::make_shared<MomentsArgs>(parse_moments(constants));
  if (operands != 3 || sizes != 0) fail(Code::format, "a moments step has {} operands and {} sizes", operands, sizes);
  return args;
}

void check_moments(const Call& call) {
  const auto& args = *static_cast<const MomentsArgs*>(call.constants);
  const TensorRef &in = call.operands[0], &sums = call.operands[1], &squares = call.operands[2];
  const auto kept = static_cast<int>(std::count(args.reduced.begin(), args.reduced.end(), 0));
  bool fits = takes_moments_of(in.dtype) && sums.dtype == ir::DType::f32 && squares.dtype == ir::DType::f32 && in.rank == static_cast<int>(args.reduced.size()) &&
              sums.rank == kept && squares.rank == kept;
  int k = 0;
  for (int d = 0; fits && d < in.rank; ++d) {
    if (args.reduced[static_cast<size_t>(d)] != 0) continue;
    fits = sums.dims[k] == in.dims[d] && squares.dims[k] == in.dims[d];
    ++k;
  }
  if (!fits) fail(Code::format, "the operands of moments do not fit");
}

}  // namespace ingot::kernels
