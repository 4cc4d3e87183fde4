// Constants of an "attention" step on CUDA: the generated kernels and how to launch them.
//
// operands = Q [batch.., S, D], K [batch.., T, D], V [batch.., T, E], the mask's loads over [batch.., S, T] and their gathered axes, if `filled` the number of keys of
// each sequence (i64 [first batch axis]), out [batch.., S, E] (written). sizes = S, T, D, E, then the mask's. Every kernel takes one struct: u64 status, u64 pointers[operands],
// i64 numbers[numbers].
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/kernels/attention/run/tuning.h"
#include "backend/cuda/kernels/run/numbers_args.h"
#include "ir/dtype.h"

namespace ingot::kernels {

// Sizes of heads for which kernels are printed: multiples of eight elements; for wide heads there must be an instruction of as many columns.
constexpr bool attention_cuda_head(int64_t elements) {
  using namespace attention_cuda_tuning;
  return elements >= 8 && elements % 8 == 0 && (elements <= wide_head || std::find(std::begin(wider_heads), std::end(wider_heads), elements) != std::end(wider_heads));
}

struct AttentionCudaArgs {
  struct Operand {
    ir::DType dtype;
    uint8_t gathered = 0;
  };
  using Number = CudaNumber;
  using Known = CudaKnown;
  // How a kernel divides its work among warps.
  struct Shape {
    uint32_t groups;        // groups of four warps on Hopper, 64 queries each, which share keys and values; 0: single warps
    uint32_t warps;         // side by side, 16 queries each
    uint32_t splits;        // parts of an iteration's keys, each computed by other warps
    uint32_t keys, stages;  // keys per iteration; iterations in flight
    bool overlap;           // the product with values runs during the next softmax
    uint32_t blocks;        // per multiprocessor on Hopper, at least
    bool boxes = false;     // on Hopper one more group copies keys and values (TMA), and a block takes queries one after another

    uint32_t queries() const { return warps * 16; }
    uint32_t threads() const { return warps * splits * 32 + (boxes ? 128 : 0); }
    // The same shape without groups of warps.
    Shape alone() const { return groups > 0 ? Shape{0, warps, 1, 64, 2, false, 1} : *this; }
    uint32_t shared(uint32_t depth, uint32_t width) const;
  };
  // name_0 and name_1: rows at 16-byte addresses, for few and for many queries; name_2: any address; the others are only for measurements.
  enum : int { any_address = 2, variants = 3, measured = 11, by_sizes = 255 };
  Shape shape(int variant) const;
  // Of blocks that have a part of the keys each, for few queries: name_parts, then name_join; of one query name_heads_parts and name_heads_join, if
  // heads share keys. Single warps, at 16-byte addresses.
  Shape shape_of_parts() const;

  std::string name;
  uint8_t batch_rank = 0;
  uint16_t depth = 0, width = 0;  // D, E
  bool filled = false;
  bool columns = false;           // the mask adds one number per key: groups keep these numbers in shared memory
  uint8_t only = by_sizes;        // the variant to use for all sizes
  bool parts = false;             // the plan has code for parts of the keys
  uint8_t heads = 0;              // of the innermost axis of heads, which share keys and values: a block has those of one query as rows. 0: the plan has no code for it
  uint8_t printed = 3;            // if sizes decide: bit v: the plan has code for variant v (0 or 1)
  // If they are known: short or long rows (at least `long_queries` queries, tuning.h); long ones with at most `one_iteration` keys, or with at least `min_boxed_keys` and no
  // mask; and those whose heads are copied as TMA boxes on Hopper. Then the kernels' parameters begin with the tensor maps of Q, K and V.
  enum Rows : uint8_t { short_rows, long_rows, one_iteration_of_keys, unmasked, in_boxes } rows = short_rows;
  bool boxes() const { return rows == in_boxes; }
  // The operand with the numbers of keys; 0: there is none.
  size_t filled_operand() const { return filled ? operands.size() - 2 : 0; }
  static constexpr uint8_t max_box_axes = attention_cuda_tuning::max_box_axes;  // axes of heads in a tensor map
  static constexpr uint16_t max_boxed_head = attention_cuda_tuning::max_boxed_head;
  static constexpr size_t max_rank = attention_cuda_tuning::max_rank;
  uint32_t sizes = 0;
  std::vector<Operand> operands;
  std::vector<Number> numbers;
  std::vector<Known> known;
};

std::vector<std::byte> serialise(const AttentionCudaArgs&);
// Checks every index. Error (format).
AttentionCudaArgs parse_attention_cuda(std::span<const std::byte>);

}  // namespace ingot::kernels
