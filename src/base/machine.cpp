#include "base/machine.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"

namespace ingot {

namespace {

constexpr MachineField fields[] = {
#define X(name, meaning) {#name, meaning, &Machine::name},
#include "base/machine.def"
#undef X
};

// CPUs: AMD EPYC (Zen 4, 2 cores, 3.69 GHz), `INGOT_ISA=<row> ingot doctor --measure --keep`; the multiply-adds, dot products and the clock of amx_bf16 are an Intel Xeon's (docs/performance-notes/gemms_cpu.md, 0028), and its caches the EPYC's. Wake and
// other_core: docs/performance-notes/calls_and_threads.md. Launch of a CPU's step: what two copies of small images take in addition to their elements (backend/cpu/kernels/depthwise_conv/run/tuning.h). Dispatch, call and binding: estimates. GPUs: bf16, f32 and l2 from the makers' data sheets (V100, A100, H100,
// B200, RTX 5090); memory as copies reach it; launch from profiles on an H200 (docs/performance-notes/gemms_cuda.md). Zero: nothing asks for it.
constexpr KnownMachine known[] = {
    // name              lanes  clock  f32    bf16    dots  l1   l2    l3  memory other wake  launch rows  dispatch call binding
    {"cpu:portable", {4, 3.69, 15, 15, 0, 89, 117, 95, 22, 9, 1000, 1500, 1, 5000, 5000, 250}},
    {"cpu:avx2", {8, 3.69, 59, 59, 0, 178, 117, 95, 22, 9, 1000, 1500, 1, 5000, 5000, 250}},
    {"cpu:avx512", {16, 3.69, 59, 59, 0, 178, 117, 95, 22, 9, 1000, 1500, 1, 5000, 5000, 250}},
    {"cpu:avx512_bf16", {16, 3.69, 59, 118, 118, 178, 117, 95, 22, 9, 1000, 1500, 1, 5000, 5000, 250}},
    {"cpu:amx_bf16", {16, 3.3, 109, 1600, 54.5, 178, 117, 95, 22, 9, 1000, 1500, 1, 5000, 5000, 250}},
    {"cuda:sm_70", {32, 1.5, 7800, 7800, 0, 0, 2100, 0, 800, 0, 0, 2000, 1024, 5000, 5000, 250}},
    {"cuda:sm_80", {32, 1.4, 9750, 156000, 0, 0, 4000, 0, 1700, 0, 0, 2000, 1024, 5000, 5000, 250}},
    {"cuda:sm_90", {32, 1.8, 33500, 494500, 0, 0, 5500, 0, 4100, 0, 0, 2000, 1024, 5000, 5000, 250}},
    {"cuda:sm_100", {32, 1.8, 40000, 1125000, 0, 0, 10000, 0, 7000, 0, 0, 2000, 1024, 5000, 5000, 250}},
    {"cuda:sm_120", {32, 2.4, 52400, 104800, 0, 0, 7000, 0, 1600, 0, 0, 2000, 1024, 5000, 5000, 250}},
};

}  // namespace

std::span<const MachineField> machine_fields() { return fields; }
std::span<const KnownMachine> known_machines() { return known; }

const Machine& machine_named(std::string_view name) {
  const auto* found = std::find_if(std::begin(known), std::end(known), [&](const KnownMachine& k) { return k.name == name; });
  if (found == std::end(known)) fail(Code::internal, "there is no machine {}", name);
  return found->machine;
}

const Machine& machine_for(const Target& target) {
#if defined(__x86_64__)
  constexpr std::string_view usual = "cpu:avx512";
#else
  constexpr std::string_view usual = "cpu:portable";
#endif
  if (target.kind != Target::Kind::cuda) return machine_named(usual);
  const Machine* best = nullptr;
  for (const KnownMachine& k : known) {
    const std::optional<Target> of = parse_target(k.name);
    if (of && of->kind == Target::Kind::cuda && (best == nullptr || of->architecture <= target.architecture)) best = &k.machine;
  }
  return *best;
}

std::string text_of(const Machine& m) {
  std::string s;
  for (const MachineField& f : fields) s += fmt::format("{}{}={}", s.empty() ? "" : " ", f.name, m.*f.value);
  return s;
}

std::optional<Machine> parse_machine(std::string_view text) {
  Machine m;
  for (const MachineField& f : fields) {
    const size_t end = std::min(text.size(), text.find(' ')), equals = text.substr(0, end).find('=');
    if (equals == std::string_view::npos || text.substr(0, equals) != f.name) return std::nullopt;
    const std::string_view number = text.substr(equals + 1, end - equals - 1);
    const auto [at, error] = std::from_chars(number.data(), number.data() + number.size(), m.*f.value);
    // A cost divides by most of them.
    if (error != std::errc() || at != number.data() + number.size() || !std::isfinite(m.*f.value) || m.*f.value < 0) return std::nullopt;
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  constexpr double Machine::* divisors[] = {&Machine::f32, &Machine::bf16, &Machine::l1, &Machine::l2, &Machine::l3, &Machine::memory, &Machine::clock, &Machine::other_core};
  const bool divides = std::all_of(std::begin(divisors), std::end(divisors), [&](double Machine::* rate) { return m.*rate > 0; });
  return text.empty() && divides && m.lanes >= 1 ? std::optional(m) : std::nullopt;
}

}  // namespace ingot
