// What a product takes by each kernel of the family, estimated from sizes alone: for offers, and for the choice among a step's alternatives.
#pragma once
#include <cstdint>
#include <optional>

#include "backend/cpu/kernels/conv/run/cost.h"
#include "ir/dtype.h"

namespace ingot::kernels::matmul {

struct ProductSizes {
  double rows = 0;                     // of all batches
  int64_t m = 1, n = 0, k = 0;         // of one of them
  ir::DType panel = ir::DType::f32;    // of B, as the kernel reads it
  bool packed = true;                  // B is in panels; else each run packs it
  bool in_order = false;               // the choice must not depend on the number of rows
  bool rounds = false;                 // results are of a half type, whatever the panel's is
  std::optional<conv::ConvSizes> image = std::nullopt;  // A is read through this map
};

// Products of a nanosecond at the machine's peak for this type.
double peak_of(const Machine&, ir::DType);

// Nanoseconds. conv::never: the machine has no such instructions.
double cost_of_tiles(const ProductSizes&, const conv::Cpu&);
double cost_of_dots(const ProductSizes&, const conv::Cpu&);
double cost_of_matrix(const ProductSizes&, const conv::Cpu&);
double cost_of_small(const ProductSizes&, const conv::Cpu&);
double cost_of_short(const ProductSizes&, const conv::Cpu&);
double cost_of_short_matrix(const ProductSizes&, const conv::Cpu&);

}  // namespace ingot::kernels::matmul
