// Constants of the "fourier" step: discrete Fourier transforms along the last axis or several. ir/prim.def says what they are.
//
// Operands, of one type, f32 or f64, with the same batch axes:
//   pair      re, im, results re, im
//   of_real   x, results re, im
//   to_real   re, im, result x
// Results share no memory with operands. No sizes.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "ir/fourier.h"

namespace ingot::kernels {

struct FourierArgs {
  ir::FourierKind kind = ir::FourierKind::pair;
  int64_t axes = 1;      // the last ones, at most ir::max_fourier_axes
  bool columns = false;  // neighbouring transforms lie closer together than the elements of one, in each operand: an offer says so

  size_t inputs() const { return kind == ir::FourierKind::of_real ? 1 : 2; }
  size_t operands() const { return kind == ir::FourierKind::pair ? 4 : 3; }
};
std::vector<std::byte> serialise(const FourierArgs&);
FourierArgs parse_fourier(std::span<const std::byte>);

}  // namespace ingot::kernels
