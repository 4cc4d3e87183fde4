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

namespace {

std::string machine_name() { return fmt::format("{}, {}", cpu::processor(), cpu::name_of(cpu::isa())); }

// The device that plans without timings share, or one with a plan's timings.
std::shared_ptr<const Backend> open_cpu(int, std::span<const CodeImage>, std::span<const Timing> timings) {
  if (timings.empty()) return {&cpu_backend(), [](const Backend*) {}};
  return std::make_shared<const Host>(find_cpu_kernel, machine_name(), timings);
}

}  // namespace

const Backend& cpu_backend() {
  static const Host host(find_cpu_kernel, machine_name());
  return host;
}

namespace cpu {

extern const Devices devices;
const Devices devices{
    Target::Kind::cpu, "the CPU", false, [](std::string_view name) { return name == "cpu" ? std::optional(0) : std::nullopt; }, [](int) { return Target(); }, open_cpu,
};

}  // namespace cpu

}  // namespace ingot::backend
