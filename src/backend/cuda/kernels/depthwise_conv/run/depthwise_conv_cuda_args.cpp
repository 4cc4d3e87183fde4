#include "backend/cuda/kernels/depthwise_conv/run/depthwise_conv_cuda_args.h"

namespace ingot::kernels {

namespace {

constexpr uint32_t magic = 0x36434344;  // "DCC6"

auto fields = [](auto& s, auto& a) {
  window_fields(s, a);
  s.field(a.lines);
};

}  // namespace

std::vector<std::byte> serialise(const DepthwiseConvCudaArgs& a) { return to_bytes(magic, a, fields); }

DepthwiseConvCudaArgs parse_depthwise_conv_cuda(std::span<const std::byte> bytes) {
  auto a = from_bytes<DepthwiseConvCudaArgs>(bytes, magic, "the arguments of a depthwise_conv step for CUDA", fields);
  check_windows(a, "depthwise_conv", a.indices(), a.kept);
  require_window_args(a.operands[1].dtype == ir::DType::f32, "depthwise_conv", "type");
  return a;
}

}  // namespace ingot::kernels
