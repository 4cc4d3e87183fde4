// Which instruction set kernels use on this machine.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace ingot::backend::cpu {

enum class Isa { portable, avx2, avx512, avx512_bf16 };  // each has all of those before it

// From CPUID, once; INGOT_ISA=portable|avx2|avx512|avx512_bf16 caps it (a debug switch).
inline Isa isa() {
  static const Isa chosen = [] {
    Isa best = Isa::portable;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) best = Isa::avx2;
    if (best == Isa::avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
      best = __builtin_cpu_supports("avx512bf16") ? Isa::avx512_bf16 : Isa::avx512;
    }
#endif
    if (const char* cap = std::getenv("INGOT_ISA")) {
      if (std::strcmp(cap, "portable") == 0) best = Isa::portable;
      if (std::strcmp(cap, "avx2") == 0) best = std::min(best, Isa::avx2);
      if (std::strcmp(cap, "avx512") == 0) best = std::min(best, Isa::avx512);
    }
    return best;
  }();
  return chosen;
}

inline const char* name_of(Isa i) {
  constexpr const char* names[] = {"portable", "avx2", "avx512", "avx512_bf16"};
  return names[static_cast<int>(i)];
}

}  // namespace ingot::backend::cpu
