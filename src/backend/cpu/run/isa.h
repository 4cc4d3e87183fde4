// Which instruction set kernels use on this machine.
#pragma once
#include <cstdlib>
#include <cstring>

namespace ingot::backend::cpu {

enum class Isa { portable, avx2, avx512 };

// From CPUID, once; INGOT_ISA=portable|avx2|avx512 caps it (a debug switch).
inline Isa isa() {
  static const Isa chosen = [] {
    Isa best = Isa::portable;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) best = Isa::avx2;
    if (best == Isa::avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
      best = Isa::avx512;
    }
#endif
    if (const char* cap = std::getenv("INGOT_ISA")) {
      if (std::strcmp(cap, "portable") == 0) best = Isa::portable;
      if (std::strcmp(cap, "avx2") == 0 && best == Isa::avx512) best = Isa::avx2;
    }
    return best;
  }();
  return chosen;
}

inline const char* name_of(Isa i) { return i == Isa::avx512 ? "avx512" : i == Isa::avx2 ? "avx2" : "portable"; }

}  // namespace ingot::backend::cpu
