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

#include "ir/dtype.h"
#include "kernels/numbers_cuda_args.h"

namespace ingot::kernels {

struct AttentionCudaArgs {
  struct Operand {
    ir::DType dtype;
    uint8_t gathered = 0;
  };
  using Number = CudaNumber;
  using Known = CudaKnown;
  // name_0 and name_1: rows at 16-byte addresses, few and many queries a block; name_2: any.
  static constexpr int variants = 3, any_address = 2;
  static constexpr uint32_t warps[variants] = {2, 4, 4};
  static constexpr uint32_t queries_of_warp = 16, keys_at_once = 64;

  std::string name;
  uint8_t batch_rank = 0;
  uint16_t depth = 0, width = 0;  // D, E
  uint32_t sizes = 0;
  std::vector<Operand> operands;
  std::vector<Number> numbers;
  std::vector<Known> known;
};

std::vector<std::byte> serialise(const AttentionCudaArgs&);
// Checks every index. Error (format).
AttentionCudaArgs parse_attention_cuda(std::span<const std::byte>);

}  // namespace ingot::kernels
