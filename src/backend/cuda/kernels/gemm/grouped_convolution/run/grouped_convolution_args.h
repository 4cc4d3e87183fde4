// Constants of a "gemm_grouped_convolution" step: the generated kernels and how to launch them.
//
// Operands: A, B [batch.., K, N] in A's type, then the body's, [batch.., M, N]. Kept indices are those of the batch, of the rows and the column; summed ones are K's. Sizes:
// those of all indices, the map's offsets for each axis of A, then the body's.
#pragma once
#include "backend/cuda/kernels/run/windows_args.h"
#include "backend/cuda/run/hardware.h"

namespace ingot::kernels {

struct GroupedConvolutionArgs : WindowArgs {
  static constexpr int rows_of_matrix = backend::cuda::hardware::matrix_rows;

  uint8_t batch = 0;                 // batch axes of the GEMM
  bool matrices = false;             // name_0 has a warp for 16 outputs of a line and all columns, by matrix instructions
  uint8_t lanes = 1;                 // threads that share each sum: a power of two
};

std::vector<std::byte> serialise(const GroupedConvolutionArgs&);
// Checks every index. Error (format).
GroupedConvolutionArgs parse_grouped_convolution(std::span<const std::byte>);

}  // namespace ingot::kernels
