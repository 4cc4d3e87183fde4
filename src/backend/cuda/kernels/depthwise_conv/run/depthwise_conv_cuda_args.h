// Constants of a "depthwise_conv" step on CUDA: the generated kernels and how to launch them.
//
// Operands and sizes are those of the CPU's step (kernels/depthwise_conv/run/depthwise_conv_args.h), but A may be of a half type, and the body has its own
// sizes. A convolution in groups is a GEMM: its kept indices are those of the batch, of the rows and the column; B [batch.., K, N] is of A's type, and the body's
// operands are [batch.., M, N]. Every kernel takes one struct: u64 status, u64 pointers[operands], i64 numbers[numbers].
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/kernels/run/numbers_args.h"
#include "ir/dtype.h"

namespace ingot::kernels {

struct DepthwiseConvCudaArgs {
  static constexpr int max_rank = 8;       // of A; of kept and of summed indices
  static constexpr int64_t max_taps = 169; // 13 x 13
  static constexpr uint32_t threads = 128; // of a block
  struct Operand {
    ir::DType dtype;
    uint8_t vector = 1;              // elements per access in name_0: channels, or neighbours of a line
  };

  std::string name;                  // name_0: accesses vectors, name_1: single elements
  bool grouped = false;              // a GEMM with `batch` batch axes
  uint8_t batch = 0;
  bool matrices = false;             // name_0 has a warp for 16 outputs of a line and all columns, by matrix instructions
  static constexpr int rows_of_matrix = 16;
  bool lines = false;                // threads are neighbours along lines of A, not along channels
  uint8_t rank = 1, kept = 2, summed = 0, stores = 1;
  uint8_t vector = 1;                // channels per thread in name_0; columns in both if grouped
  uint8_t tile = 1;                  // outputs per thread along the index before the channels
  uint8_t lanes = 1;                 // threads that share each sum of a GEMM: a power of two
  std::vector<int64_t> steps;        // strides of the map: [rank][kept + summed], not negative
  std::vector<uint8_t> unguarded;    // axes of A that the map never leaves
  uint32_t sizes = 0;                // of the step
  std::vector<Operand> operands;     // A, B, the body's
  std::vector<CudaNumber> numbers;
  std::vector<CudaKnown> known;

  size_t indices() const { return size_t{kept} + summed; }
  size_t rank_of(size_t operand) const { return operand == 0 ? rank : grouped ? size_t{batch} + 2 : operand == 1 ? indices() : kept; }
};

std::vector<std::byte> serialise(const DepthwiseConvCudaArgs&);
// Checks every index. Error (format).
DepthwiseConvCudaArgs parse_depthwise_conv_cuda(std::span<const std::byte>);

}  // namespace ingot::kernels
