// Constants of a "fused" step on CUDA: the kernels generated for its body, their conditions, and how to launch them.
//
// Operands are those of the CPU's step: loads, then stores. Sizes: the emitter's, then the domain's extents. Every kernel takes one struct: u64 status (an
// address or 0), u64 pointers[operands], i64 numbers[numbers].
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/kernels/fused/run/tuning.h"
#include "ir/dtype.h"

namespace ingot::kernels {

struct FusedCudaArgs {
  struct Operand {
    ir::DType dtype;
    uint8_t gathered = 0;   // index axes after the domain's
    bool guarded = false;   // read only by guarded loads, so it may have any dims
    bool vector = false;    // accessed `Variant::vector` elements at a time
  };
  // Adjacent axes of the domain that form one loop: first to last. The last group's elements are on adjacent threads.
  struct Group {
    uint8_t first, last;
  };
  // The meaning of a number that is known when sizes are.
  struct Number {
    enum Kind : uint8_t {
      size,     // size a
      extent,   // extent of group a, divided by b
      magic,    // the same as a divisor (prelude.h: divided)
      rows,     // elements of all outer groups
      units,    // elements of all inner groups, divided by b
      stride,   // of operand a on axis b
      dim,      // of operand a on axis b
    };
    Kind kind;
    uint16_t a = 0, b = 1;
    bool operator==(const Number&) const = default;
  };
  // A value of a number that the text relies on.
  struct Known {
    Number number;
    int64_t value;
  };
  struct Variant {
    enum Mapping : uint8_t {
      points,   // no rows: threads take units of the whole domain
      warp,     // `lanes` adjacent threads (a power of 2, at most 32) share a row
      block,    // one block per row
      column,   // 32 adjacent rows per block, `lanes` threads per row
      tile,     // no rows: 32 x 32 places of the groups `across` and last per block
    };
    Mapping mapping = points;
    uint8_t vector = 1;     // elements per unit, the smallest access
    uint8_t units = 1;      // per thread (per pass, if it rereads)
    bool reread = false;    // rows of any length, which each stage reads again; else a row must fit lanes * units
    bool wide = false;      // 64-bit indices
    bool fitted = false;    // a block has as many threads as the row needs, at most `threads`
    uint16_t kept = 0;      // rereads from shared memory: bytes per element of the row
    uint16_t threads = 256; // per block
    uint16_t lanes = 0;
    uint8_t across = 0;     // of a tile
    int rows_of_block() const { return mapping == warp ? threads / lanes : mapping == column ? 32 : 1; }
  };
  static constexpr int64_t tile = fused_cuda_tuning::tile, min_transposed_extent = fused_cuda_tuning::min_transposed_extent;

  std::string name;                // kernels are name_0, name_1, ...
  uint8_t rank = 1, row_rank = 1;  // of the domain
  uint8_t stores = 1;
  uint8_t outer = 0;               // number of groups before the row's
  uint32_t sizes = 0;              // before the domain's extents
  std::vector<Operand> operands;
  std::vector<Group> groups;
  std::vector<Number> numbers;
  std::vector<Known> known;
  std::vector<Variant> variants;   // the first that fits is used
};

std::vector<std::byte> serialise(const FusedCudaArgs&);
// Checks every index. Error (format).
FusedCudaArgs parse_fused_cuda(std::span<const std::byte>);

}  // namespace ingot::kernels
