// The instruction set that kernels use on this machine.
#pragma once
#include <string>

#include "base/machine.h"

namespace ingot::backend::cpu {

enum class Isa {
#define X(name) name,
#include "backend/cpu/run/isa.def"
#undef X
};

// The best one that the processor and the operating system support, detected once.
// INGOT_ISA=portable|avx2|avx512|avx512_bf16|amx_bf16 limits it (for debugging).
Isa isa();
// Without regard to INGOT_ISA.
Isa best_isa();
const char* name_of(Isa);
// The processor's own name: "AMD EPYC".
std::string processor();
// The rates of this instruction set, by which steps are divided and alternatives chosen.
const Machine& machine();

// What this machine runs, of code for three instruction sets.
template <class Table>
const Table& by_isa(const Table& portable, const Table& avx2, const Table& avx512) {
  const Isa best = isa();
  return best >= Isa::avx512 ? avx512 : best == Isa::avx2 ? avx2 : portable;
}

}  // namespace ingot::backend::cpu
