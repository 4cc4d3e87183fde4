#include "backend/cpu/run/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <iterator>

namespace ingot::backend::cpu {

namespace {

constexpr const char* names[] = {
#define X(name) #name,
#include "backend/cpu/run/isa.def"
#undef X
};

#if defined(__x86_64__)
// What the processor has, if the system saves the registers for it. Read here, since the compilers' __builtin_cpu_supports needs a run time that zig's programs lack.
// Source of the bits: Intel 64 manual, volume 2, CPUID, and volume 1, section 13.3, XCR0.
struct Features {
  bool avx2, avx512, avx512_bf16, amx_bf16;
};

struct Leaf {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};
Leaf leaf(uint32_t number, uint32_t part) {
  Leaf l;
  __get_cpuid_count(number, part, &l.a, &l.b, &l.c, &l.d);  // zeros stay where there is none
  return l;
}

constexpr uint64_t bits(std::initializer_list<int> numbers) {
  uint64_t all = 0;
  for (int n : numbers) all |= uint64_t{1} << n;
  return all;
}
bool has_all(uint64_t word, uint64_t wanted) { return (word & wanted) == wanted; }

Features features() {
  constexpr uint64_t fma_xsave_f16c = bits({12, 27, 29}), avx2 = bits({5}), avx512_f_dq_bw_vl = bits({16, 17, 30, 31}), avx512_bf16 = bits({5}), amx_bf16_tile = bits({22, 24});
  constexpr uint64_t ymm = bits({1, 2}), zmm = bits({5, 6, 7}), tiles = bits({17, 18});
  const Leaf basic = leaf(1, 0), extended = leaf(7, 0), more = leaf(7, 1);
  Features f{};
  if (!has_all(basic.c, fma_xsave_f16c)) return f;
  uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  const uint64_t saved = low | uint64_t{high} << 32;
  f.avx2 = has_all(extended.b, avx2) && has_all(saved, ymm);
  f.avx512 = f.avx2 && has_all(extended.b, avx512_f_dq_bw_vl) && has_all(saved, zmm);
  f.avx512_bf16 = f.avx512 && has_all(more.a, avx512_bf16);
  f.amx_bf16 = f.avx512_bf16 && has_all(extended.d, amx_bf16_tile) && has_all(saved, tiles);
  return f;
}

// Linux grants AMX tile registers on request only. The grant holds for all threads and child processes.
bool may_use_tiles() {
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}
#endif

Isa find(Isa limit) {
#if defined(__x86_64__)
  const Features has = features();
  if (limit < Isa::avx2 || !has.avx2) return Isa::portable;
  if (limit < Isa::avx512 || !has.avx512) return Isa::avx2;
  if (limit < Isa::avx512_bf16 || !has.avx512_bf16) return Isa::avx512;
  if (limit < Isa::amx_bf16 || !has.amx_bf16 || !may_use_tiles()) return Isa::avx512_bf16;
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
#if defined(__aarch64__)
  std::strcpy(name, "AArch64");
#elif defined(__x86_64__)
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
