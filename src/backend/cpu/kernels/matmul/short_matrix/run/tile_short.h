// Rows of bfloat16 past panels of pairs (matmul/run/pack.h), in matrix registers.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backend/cpu/run/hardware.h"

namespace ingot::kernels {

// How K is cut: into `steps` of `terms` each, an even number that a register takes. If they are more than K, A is copied beside zeros and B's panels end in rows of zeros.
struct ShortSteps {
  static constexpr int64_t side = backend::cpu::hardware::matrix_side;
  int64_t k, steps, terms;
  explicit ShortSteps(int64_t of) : k(of), steps((of + side - 1) / side), terms((of + 2 * steps - 1) / (2 * steps) * 2) {}
  bool copies() const { return steps * terms != k; }
  int64_t pairs() const { return steps * terms / 2; }  // rows of a panel
  int64_t copied_row() const { return (steps * terms + side - 1) / side * side; }
};

struct ShortProduct {
  ShortSteps steps;
  int64_t rows, n;
  const uint16_t* a;
  int64_t a_row;
  const std::byte* panels;
  uint16_t* to;
  int64_t to_row;
};

// No machine but those of Isa::amx_bf16 can run these. `copy`: ShortSteps::side rows of ShortSteps::copied_row, if it copies. `sums`: a block. release: after the last product of a task.
struct ShortMatrix {
  void (*run)(const ShortProduct&, uint16_t* copy, float* sums);
  void (*release)();
};
#if defined(__x86_64__)
extern const ShortMatrix short_matrix_amx;
#else
inline constexpr ShortMatrix short_matrix_amx{};
#endif

}  // namespace ingot::kernels
