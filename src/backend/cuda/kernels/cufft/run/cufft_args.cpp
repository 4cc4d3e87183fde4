#include "backend/cuda/kernels/cufft/run/cufft_args.h"

#include "backend/cuda/kernels/fourier/run/fourier_cuda_args.h"
#include "base/error.h"

namespace ingot::kernels {

namespace {

enum Flag : uint8_t { inverse = 1, reads_interleaved = 2, writes_interleaved = 4 };

}  // namespace

std::vector<std::byte> serialise(const CufftArgs& a) {
  std::vector<std::byte> out = serialise(a.fourier);
  out.push_back(static_cast<std::byte>((a.inverse ? inverse : 0) | (a.reads_interleaved ? reads_interleaved : 0) | (a.writes_interleaved ? writes_interleaved : 0)));
  return out;
}

CufftArgs parse_cufft(std::span<const std::byte> bytes) {
  const auto flags = bytes.empty() ? 0 : static_cast<uint8_t>(bytes.back());
  const CufftArgs out{parse_fourier(bytes.first(bytes.empty() ? 0 : bytes.size() - 1)), (flags & inverse) != 0, (flags & reads_interleaved) != 0,
                      (flags & writes_interleaved) != 0};
  if (flags > 7 || (out.inverse && out.fourier.kind != ir::FourierKind::pair)) fail(Code::format, "a cufft step has wrong constants");
  return out;
}

std::string cufft_cuda_name(const FourierArgs& a, ir::DType type) { return "cufft_" + fourier_cuda_name(a, type); }

}  // namespace ingot::kernels
