#include "backend/cuda/kernels/gemm/grouped_convolution/run/grouped_convolution_args.h"

#include <bit>

namespace ingot::kernels {

namespace {

constexpr uint32_t magic = 0x31564347;  // "GCV1"

auto fields = [](auto& s, auto& a) {
  window_fields(s, a);
  s.all(a.batch, a.matrices, a.lanes);
};

}  // namespace

std::vector<std::byte> serialise(const GroupedConvolutionArgs& a) { return to_bytes(magic, a, fields); }

GroupedConvolutionArgs parse_grouped_convolution(std::span<const std::byte> bytes) {
  constexpr std::string_view kernel = "gemm_grouped_convolution";
  auto a = from_bytes<GroupedConvolutionArgs>(bytes, magic, "the arguments of a gemm_grouped_convolution step for CUDA", fields);
  check_windows(a, kernel, size_t{a.batch} + 2, size_t{a.batch} + 2);
  require_window_args(size_t{a.batch} + 2 <= a.kept && a.summed >= 1, kernel, "groups");
  require_window_args(std::has_single_bit(a.lanes) && a.lanes <= 32 && (a.lanes == 1 || !a.matrices), kernel, "lanes");
  require_window_args(!a.matrices || a.tile == 2, kernel, "matrices");
  require_window_args(a.operands[1].dtype == a.operands[0].dtype, kernel, "type");
  return a;
}

}  // namespace ingot::kernels
