// What the constants of two kernels have in common that read A through a map and sum its windows, each thread for some outputs of a line: depthwise convolutions, and
// convolutions in groups.
//
// Operands: A, B, the body's. Every kernel takes one struct: u64 status, u64 pointers[operands], i64 numbers[numbers].
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/cuda/kernels/run/numbers_args.h"
#include "backend/cuda/kernels/run/tuning.h"
#include "base/fields.h"
#include "ir/dtype.h"
#include "kernels/depthwise_conv/run/depthwise_conv_args.h"

namespace ingot::kernels {

struct WindowArgs {
  static constexpr int max_rank = DepthwiseConvArgs::max_rank;               // of A; of kept and of summed indices
  static constexpr uint32_t threads = launch_tuning::window_threads;  // of a block
  struct Operand {
    ir::DType dtype;
    uint8_t vector = 1;              // elements per access in name_0: channels, or neighbours of a line
  };

  std::string name;                  // name_0: accesses vectors, name_1: single elements
  uint8_t rank = 1, kept = 2, summed = 0, stores = 1;
  uint8_t vector = 1;                // channels or columns of a thread in name_0
  uint8_t tile = 1;                  // outputs of a thread along the index before the last kept one
  std::vector<int64_t> steps;        // strides of the map: [rank][kept + summed], not negative
  std::vector<uint8_t> unguarded;    // axes of A that the map never leaves
  uint32_t sizes = 0;                // of the step
  std::vector<Operand> operands;
  std::vector<CudaNumber> numbers;
  std::vector<CudaKnown> known;

  size_t indices() const { return size_t{kept} + summed; }
  size_t line() const { return size_t{kept} - 2; }  // the index of outputs along a line
  size_t last() const { return size_t{kept} - 1; }  // that of channels or columns
};

// Lists them for to_bytes() and from_bytes().
void window_fields(FieldWriter&, const WindowArgs&);
void window_fields(FieldReader&, WindowArgs&);
// Error (format), naming the kernel, if they are damaged. The ranks are those of B and of the body's operands.
void check_windows(const WindowArgs&, std::string_view kernel, size_t rank_of_b, size_t rank_of_body);
// The same for what a kernel adds to them.
void require_window_args(bool good, std::string_view kernel, std::string_view what);
// Error (format) if the step has other numbers of operands or sizes.
void check_window_counts(const WindowArgs&, std::string_view kernel, size_t operands, size_t sizes);

}  // namespace ingot::kernels
