// Arguments of a "fused" step on CUDA: which kernels were generated for its body, for what, and how they are called.
//
// Operands and sizes of the step are those of the CPU's: loads, then stores; sizes of the emitter, then the domain's extents.
// Every kernel takes one struct: u64 status (an address or 0), u64 pointers[operands], i64 numbers[numbers].
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/dtype.h"

namespace ingot::kernels {

struct FusedCudaArgs {
  struct Operand {
    ir::DType dtype;
    uint8_t gathered = 0;   // index axes behind those of the domain
    bool guarded = false;   // only guarded loads read it: any dims
    bool vector = false;    // accessed `Variant::vector` elements at a time
  };
  // Neighbouring axes of the domain that are walked as one: first to last.
  struct Group {
    uint8_t first, last;
  };
  // What a number is, known when the sizes are.
  struct Number {
    enum Kind : uint8_t {
      size,     // size a
      extent,   // extent of group a, divided by b
      magic,    // the same as a divisor (prelude.h: divided)
      rows,     // all outer groups
      units,    // all inner groups, divided by b
      stride,   // of operand a on axis b
      dim,      // of operand a on axis b
    };
    Kind kind;
    uint16_t a = 0, b = 1;
    bool operator==(const Number&) const = default;
  };
  // What the text takes for granted.
  struct Known {
    Number number;
    int64_t value;
  };
  struct Variant {
    enum Mapping : uint8_t {
      points,   // no rows: threads take units of the whole domain
      warp,     // `lanes` neighbouring threads (a power of 2, at most 32) share a row
      block,    // a block a row
      column,   // 32 neighbouring rows a block, `lanes` threads each
    };
    Mapping mapping = points;
    uint8_t vector = 1;     // elements of a unit, the least that is accessed at once
    uint8_t units = 1;      // of a thread (of one turn, when it rereads)
    bool reread = false;    // rows of any length, each stage reads them again; else a row has to fit lanes * units
    bool wide = false;      // 64-bit indices
    bool fitted = false;    // a block has as many threads as the row needs, `threads` at most
    uint16_t kept = 0;      // rereads from shared memory: bytes for each element of the row
    uint16_t threads = 256; // of a block
    uint16_t lanes = 0;
  };

  std::string name;                // kernels are name_0, name_1, ...
  uint8_t rank = 1, row_rank = 1;  // of the domain
  uint8_t stores = 1;
  uint8_t outer = 0;               // groups before the row's
  uint32_t sizes = 0;              // before the domain's extents
  std::vector<Operand> operands;
  std::vector<Group> groups;
  std::vector<Number> numbers;
  std::vector<Known> known;
  std::vector<Variant> variants;   // the first that fits is taken
};

std::vector<std::byte> serialise(const FusedCudaArgs&);
// Checks every index. Error (format).
FusedCudaArgs parse_fused_cuda(std::span<const std::byte>);

}  // namespace ingot::kernels
