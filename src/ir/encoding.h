// How the elements of a tensor lie in memory: what a stored number is, how many bits it takes, which numbers share a scale, and in which order they are stored.
//
// The value of an element is (number - zero) * scale. Scales and zeros are tensors of their own, one number a block, and have encodings of their own.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "ir/dtype.h"

namespace ingot::ir {

struct Encoding {
  // Elements that share a scale, of a matrix [K, N]. 0: all along that axis.
  struct Block {
    int64_t k = 0, n = 0;
    bool operator==(const Block&) const = default;
  };
  // The order of a kernel's own: panels of columns [N / columns][K / depth][columns][depth], filled up with zeros. How many columns a panel has is decided where
  // it is packed, by the instruction set: `columns` is the most, and a multiple of all. Behind the last one are `tail` bytes that a kernel may read ahead. In front of
  // the numbers of `depth` rows of B each column has so many bytes `of_block`: its scale and its zero, which then are not tensors of their own.
  struct Panels {
    int64_t columns = 1, depth = 1, tail = 0, of_block = 0;
    bool operator==(const Panels&) const = default;
  };

  DType storage = DType::f32;                            // of a number
  uint8_t bits = static_cast<uint8_t>(8 * size_of(storage));  // that it takes in memory; fewer than 8: numbers share a byte, rows begin at one
  uint8_t needed = bits;                                 // bits that hold every number: fewer than `bits` where packing may store it in fewer
  std::optional<Block> block = std::nullopt;             // none: a number is the element's value, without a scale
  bool zero = false;                                     // a zero for each block besides its scale
  std::optional<Panels> panels = std::nullopt;           // none: row-major
  bool operator==(const Encoding&) const = default;
};

// True if a number takes its type's bytes, row-major, and is its element but for a scale that a whole column shares.
constexpr bool is_scaled_by_column(const Encoding& e) { return e.bits == 8 * size_of(e.storage) && !e.zero && !e.panels && (!e.block || *e.block == Encoding::Block{0, 1}); }

// Bytes of the numbers of a tensor, in whole bytes a row. INT64_MAX where that is not a number of bytes, or a size is negative.
constexpr int64_t storage_bytes(const Encoding& e, std::span<const int64_t> dims) {
  int64_t rows = 1, row = dims.empty() ? 1 : dims.back(), tail = 0, of_blocks = 0;
  bool good = row >= 0;
  for (size_t d = 0; d + 1 < dims.size(); ++d) good = good && dims[d] >= 0 && !__builtin_mul_overflow(rows, dims[d], &rows);
  if (e.panels) {
    good = good && !__builtin_add_overflow(rows, e.panels->depth - 1, &rows) && !__builtin_add_overflow(row, e.panels->columns - 1, &row);
    rows = rows / e.panels->depth * e.panels->depth;
    row = row / e.panels->columns * e.panels->columns;
    tail = e.panels->tail;
    good = good && !__builtin_mul_overflow(rows / e.panels->depth, row, &of_blocks) && !__builtin_mul_overflow(of_blocks, e.panels->of_block, &of_blocks);
    good = good && !__builtin_add_overflow(tail, of_blocks, &tail);
  }
  int64_t bytes = 0;
  good = good && !__builtin_mul_overflow(row, int64_t{e.bits}, &row) && !__builtin_add_overflow(row, int64_t{7}, &row);
  good = good && !__builtin_mul_overflow(rows, row / 8, &bytes) && !__builtin_add_overflow(bytes, tail, &bytes);
  return good ? bytes : INT64_MAX;
}

}  // namespace ingot::ir
