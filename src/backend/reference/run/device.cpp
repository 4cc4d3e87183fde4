#include "backend/run/host.h"
#include "backend/run/registry.h"

namespace ingot::kernels {
#define X(name) std::span<const RunKernel> name##_reference_kernels();
#include "backend/reference/run/kernels.def"
#undef X
}  // namespace ingot::kernels

namespace ingot::backend::reference {

namespace {

const RunKernel* find_kernel(std::string_view name) {
#define X(folder) \
  for (const RunKernel& k : kernels::folder##_reference_kernels()) { \
    if (k.name == name) return &k; \
  }
#include "backend/reference/run/kernels.def"
#undef X
  return nullptr;
}

constexpr Target target{Target::Kind::reference};

}  // namespace

extern const Devices devices;
const Devices devices{
    target.kind,
    "the reference",
    false,
    [](std::string_view name) { return name == "reference" ? std::optional(0) : std::nullopt; },
    [](int) { return target; },
    [](int, std::span<const CodeImage>, std::span<const Timing>) { return std::shared_ptr<const Backend>(std::make_shared<Host>(find_kernel, "reference")); },
};

}  // namespace ingot::backend::reference
