// "gemm_packed": any number of rows times weights of 4 or 8 bits, in an order that prepare writes in primitives (packing.h).
//
// B is packed in panels of 16 columns, and a panel in chunks of 128 numbers of each column. A chunk has the scales and the zeros of its groups, then its numbers, 32 of each column
// after another: as the lanes of a warp multiply them, a vector of 16 bytes each.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/kernels/gemm/packed/run/tuning.h"
#include "backend/cuda/kernels/gemm/run/gemm_args.h"
#include "ir/encoding.h"

namespace ingot::kernels {

inline constexpr int64_t packed_columns = gemm::packed_tuning::columns_of_panel, packed_depth = gemm::packed_tuning::depth_of_chunk;

struct PackedB {
  uint8_t bits = 8;         // of a number: 4 (-8 .. 7) or 8
  uint8_t group = 0;        // numbers along K that share a scale: 32, 64, 128; 0: the epilogue multiplies by the scale of a column
  uint8_t scale_bytes = 0;  // of a group's scale: 2 for bf16, 4 for f32
  bool zero = false;        // an i8 for each group

  constexpr int64_t groups() const { return group == 0 ? 0 : packed_depth / group; }  // of a column in a chunk
  constexpr int64_t of_column() const { return groups() * (scale_bytes + (zero ? 1 : 0)); }  // bytes of scales and zeros in a chunk
  constexpr bool valid() const {
    const bool grouped = Groups{group, scale_bytes, zero}.valid(), whole = group == 0 && scale_bytes == 0 && !zero;
    return (bits == 4 && grouped) || (bits == 8 && whole);
  }
  constexpr ir::Encoding encoding() const {
    return {.storage = ir::DType::i8,
            .bits = bits,
            .block = group == 0 ? std::nullopt : std::optional(ir::Encoding::Block{group, 1}),
            .zero = zero,
            .panels = ir::Encoding::Panels{packed_columns, packed_depth, 0, of_column()}};
  }
};
// Of such an encoding; nullopt: it is another one.
std::optional<PackedB> packed_b(const ir::Encoding&);

struct PackedArgs {
  PackedB b;
  GemmArgs::Implementation many = {};  // of many rows by a B that is decoded before; without a name: there is none
};
std::vector<std::byte> serialise(const PackedArgs&);
// Error (format).
PackedArgs parse_packed_args(std::span<const std::byte>);

}  // namespace ingot::kernels
