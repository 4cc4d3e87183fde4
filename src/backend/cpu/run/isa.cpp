#include "backend/cpu/run/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace ingot::backend::cpu {

namespace {

constexpr const char* names[] = {
#define X(name) #name,
#include "backend/cpu/run/isa.def"
#undef X
};

#if defined(__x86_64__)
// Linux grants AMX tile registers on request only. The grant holds for all threads and child processes.
bool may_use_tiles() {
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}
#endif

Isa find(Isa limit) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (limit < Isa::avx2 || !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c")) return Isa::portable;
  if (limit < Isa::avx512 || !__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl") ||
      !__builtin_cpu_supports("avx512dq"))
    return Isa::avx2;
  if (limit < Isa::avx512_bf16 || !__builtin_cpu_supports("avx512bf16")) return Isa::avx512;
  if (limit < Isa::amx_bf16 || !__builtin_cpu_supports("amx-tile") || !__builtin_cpu_supports("amx-bf16") || !may_use_tiles()) return Isa::avx512_bf16;
  return Isa::amx_bf16;
#else
  static_cast<void>(limit);
  return Isa::portable;
#endif
}

}  // namespace

Isa isa() {
  static const Isa chosen = [] {
    const char* cap = std::getenv("INGOT_ISA");
    const auto* named = std::find_if(std::begin(names), std::end(names), [&](const char* name) { return cap != nullptr && std::strcmp(cap, name) == 0; });
    return find(named == std::end(names) ? Isa::amx_bf16 : static_cast<Isa>(named - names));
  }();
  return chosen;
}

Isa best_isa() { return find(Isa::amx_bf16); }

const Machine& machine() {
  static const Machine& found = machine_named(std::string("cpu:") + name_of(isa()));
  return found;
}

const char* name_of(Isa i) { return names[static_cast<int>(i)]; }

std::string processor() {
  char name[49] = {};
#if defined(__x86_64__)
  constexpr unsigned first_of_name = 0x80000002;  // three leaves of CPUID, 16 letters each
  for (unsigned i = 0; i < 3; ++i) {
    unsigned words[4] = {};
    if (__get_cpuid(first_of_name + i, &words[0], &words[1], &words[2], &words[3]) != 0) std::memcpy(name + sizeof words * i, words, sizeof words);
  }
#endif
  std::string_view all(name);
  while (all.starts_with(' ')) all.remove_prefix(1);
  while (all.ends_with(' ')) all.remove_suffix(1);
  return std::string(all);
}

}  // namespace ingot::backend::cpu
