// The instruction set that kernels use on this machine.
#pragma once
#include <cstdint>
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

// The code of one kernel for each width of vectors.
template <class Table>
struct Tables {
  const Table &portable, &avx2, &avx512;
  // What this machine runs.
  const Table& best() const {
    const Isa best = isa();
    return best >= Isa::avx512 ? avx512 : best == Isa::avx2 ? avx2 : portable;
  }
  const Table& of_lanes(int64_t lanes) const { return lanes == 16 ? avx512 : lanes == 8 ? avx2 : portable; }
};
// <name>_portable, <name>_avx2 and <name>_avx512. Processors that are not x86-64 have the first alone.
#if defined(__x86_64__)
#define INGOT_TABLES(name) (::ingot::backend::cpu::Tables{name##_portable, name##_avx2, name##_avx512})
#else
#define INGOT_TABLES(name) (::ingot::backend::cpu::Tables{name##_portable, name##_portable, name##_portable})
#endif

}  // namespace ingot::backend::cpu
