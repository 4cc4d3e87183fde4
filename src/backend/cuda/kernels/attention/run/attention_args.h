// Arguments of an "attention" step on CUDA: which kernels were generated for it and how they are called.
//
// operands = Q [batch.., S, D], K [batch.., T, D], V [batch.., T, E], the mask's loads over [batch.., S, T] and their gathered axes, out
// [batch.., S, E] (written). sizes = S, T, D, E, then the mask's. Every kernel takes one struct: u64 status, u64 pointers[operands],
// i64 numbers[numbers].
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/kernels/run/numbers_args.h"
#include "ir/dtype.h"

namespace ingot::kernels {

// Heads that the kernels are printed for: whole eights of elements, wide ones where there is an instruction for as many columns.
constexpr bool attention_cuda_head(int64_t elements) { return elements >= 8 && elements % 8 == 0 && (elements <= 128 || elements == 160 || elements == 192 || elements == 256); }

struct AttentionCudaArgs {
  struct Operand {
    ir::DType dtype;
    uint8_t gathered = 0;
  };
  using Number = CudaNumber;
  using Known = CudaKnown;
  // How a kernel is made of warps.
  struct Shape {
    uint32_t groups;        // of four warps on Hopper, 64 queries each, which share keys and values; 0: warps by themselves
    uint32_t warps;         // side by side, 16 queries each
    uint32_t splits;        // of the keys of a turn, each by other warps
    uint32_t keys, stages;  // of a turn; turns on their way
    bool overlap;           // products with values under the next softmax
    uint32_t blocks;        // on a multiprocessor of Hopper, at least

    uint32_t queries() const { return warps * 16; }
    uint32_t threads() const { return warps * splits * 32; }
    // The same where there are no groups.
    Shape alone() const { return groups > 0 ? Shape{0, warps, 1, 64, 2, false, 1} : *this; }
    uint32_t shared(uint32_t depth, uint32_t width) const;
  };
  // name_0 and name_1: rows at 16-byte addresses, few and many queries; name_2: any; the others are printed to be measured.
  static constexpr int variants = 3, any_address = 2, measured = 9, by_sizes = 255;
  Shape shape(int variant) const;

  std::string name;
  uint8_t batch_rank = 0;
  uint16_t depth = 0, width = 0;  // D, E
  bool columns = false;           // the mask adds a number to all scores of a key: groups keep these in shared memory
  uint8_t only = by_sizes;        // the variant that is taken whatever the sizes are
  bool long_rows = false;         // there are `long_queries` at least: blocks of more of them read keys and values less often
  static constexpr int64_t long_queries = 512;
  uint32_t sizes = 0;
  std::vector<Operand> operands;
  std::vector<Number> numbers;
  std::vector<Known> known;
};

std::vector<std::byte> serialise(const AttentionCudaArgs&);
// Checks every index. Error (format).
AttentionCudaArgs parse_attention_cuda(std::span<const std::byte>);

}  // namespace ingot::kernels
