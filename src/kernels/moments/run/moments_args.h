// Constants of the "moments" step: sums over some axes, and sums of squared differences from the mean, for normalisations of long rows and of rows that are not contiguous in memory.
//
// Operands: in (f16, bf16, f32), sums, squares (f32, written), with the dims of `in` without these axes and any strides. No sizes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/run/kernel.h"

namespace ingot::kernels {

struct MomentsArgs {
  std::vector<uint8_t> reduced;  // per axis of `in`: 1 if it is summed over
};
std::vector<std::byte> serialise(const MomentsArgs&);
inline bool takes_moments_of(ir::DType t) { return t == ir::DType::f16 || t == ir::DType::bf16 || t == ir::DType::f32; }
MomentsArgs parse_moments(std::span<const std::byte>);

// RunKernel::load; the result is a MomentsArgs.
std::shared_ptr<const void> load_moments(std::span<const std::byte> constants, size_t operands, size_t sizes);
// Error (format) if the operands do not fit.
void check_moments(const Call& call);

}  // namespace ingot::kernels
