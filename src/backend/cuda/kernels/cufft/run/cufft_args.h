// Constants of the "cufft" step: a fourier step (kernels/fourier/run/fourier_args.h), and how its complex numbers are stored. No sizes.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/kernels/cufft/run/tuning.h"
#include "ir/dtype.h"
#include "kernels/fourier/run/fourier_args.h"

namespace ingot::kernels {

struct CufftArgs {
  FourierArgs fourier;
  bool inverse = false;  // of pairs whose parts are swapped at both ends: the inverse transform of what they are without that
  bool reads_interleaved = false, writes_interleaved = false;  // operands, or results, have real and imaginary parts side by side

  // Operand or result i in the order of the transform by cuFFT.
  size_t operand(size_t i) const { return inverse ? i ^ 1 : i; }
};
std::vector<std::byte> serialise(const CufftArgs&);
CufftArgs parse_cufft(std::span<const std::byte>);
// Of the step's own kernels.
std::string cufft_cuda_name(const FourierArgs&, ir::DType);

inline constexpr int cufft_numbers = cufft_tuning::numbers_of_thread;

}  // namespace ingot::kernels
