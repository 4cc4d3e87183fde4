#include "backend/cpu/run/isa.h"
#include "backend/run/host.h"
#include "backend/run/registry.h"

namespace ingot::kernels {
#define X(name) std::span<const RunKernel> name##_cpu_kernels();
#include "backend/cpu/run/kernels.def"
#undef X
}  // namespace ingot::kernels

namespace ingot::backend {

const RunKernel* find_cpu_kernel(std::string_view name) {
#define X(folder) \
  for (const RunKernel& k : kernels::folder##_cpu_kernels()) { \
    if (k.name == name) return &k; \
  }
#include "backend/cpu/run/kernels.def"
#undef X
  return nullptr;
}

const Backend& cpu_backend() {
  static const Host host(find_cpu_kernel, fmt::format("{}, {}", cpu::processor(), cpu::name_of(cpu::isa())));
  return host;
}

namespace cpu {

extern const Devices devices;
const Devices devices{
    Target::Kind::cpu,
    "the CPU",
    false,
    [](std::string_view name) { return name == "cpu" ? std::optional(0) : std::nullopt; },
    [](int) { return Target(); },
    [](int, std::span<const CodeImage>, std::span<const Timing>) { return std::shared_ptr<const Backend>(&cpu_backend(), [](const Backend*) {}); },
};

}  // namespace cpu

}  // namespace ingot::backend
