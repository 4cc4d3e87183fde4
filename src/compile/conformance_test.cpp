// Every kernel's random cases (kernels/definition.h) on every backend, against the interpreter. INGOT_TEST_ALL=1: many more.
#include <gtest/gtest.h>

#include <algorithm>

#include <cstdlib>
#include <limits>

#include "backend/cuda/available_test.h"
#include "backend/run/device.h"
#include "compile/graph_run_test.h"
#include "kernels/definition.h"

namespace ingot::compile {
namespace {

// Returns how many cases had a step with the kernel.
// `codes`: cases from this one on have no device code, and do not run.
int conform(const kernels::Definition& kernel, const char* target, const char* device, int cases, int codes = std::numeric_limits<int>::max()) {
  if (kernel.random_case == nullptr) return 0;
  Options options;
  options.set("target", target);
  // CUDA's kernel of this name multiplies f32 only by TF32.
  const bool tf32 = kernel.name == "implicit_gemm" && std::string_view(target).starts_with("cuda");
  if (tf32) options.set("matmul_precision", "tf32");
  int found = 0;
  for (int n = 0; n < cases; ++n) {
    SCOPED_TRACE(fmt::format("{} on {}, case {}", kernel.name, target, n));
    std::mt19937 random(static_cast<uint32_t>(n));
    ir::Graph g = kernel.random_case(random);
    ir::verify(g, ir::Level::canonical);
    add_weights(g, random);
    Record record{.device_code = n < codes};
    NamedGraph one{"forward", g};
    auto plan = std::make_shared<plan::Plan>(compile(std::span(&one, 1), options, {}, &record));
    if (record.device_code) plan::verify(*plan);
    bool has = false;
    for (const plan::Program* p : {&plan->targets[0].prepare.programs[0], &plan->functions[0].programs[0]}) {
      for (const plan::Step& s : p->steps) {
        if (s.kernel == "concurrent") continue;  // other kernels' steps, joined
        const kernels::Definition* of = kernels::definition_of(s.kernel);
        if (of == nullptr || !of->takes(s.operands.size())) ADD_FAILURE() << s.kernel << " has no definition with " << s.operands.size() << " operands";
        has |= of == &kernel;
      }
    }
    found += has;
    if (device != nullptr && record.device_code) run_and_compare(g, plan, random, device, tf32);
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << ir::print(g);
      break;
    }
  }
  return found;
}

bool everything() { return std::getenv("INGOT_TEST_ALL") != nullptr; }
int times(int usual) { return everything() ? 40 * usual : usual; }

constexpr std::string_view cpu_kernels[] = {
#define X(name) #name,
#include "backend/cpu/run/kernels.def"
#undef X
};

TEST(Conformance, Cpu) {
  for (const kernels::Definition* kernel : kernels::definitions()) {
    const int found = conform(*kernel, "cpu", "cpu", times(30));
    const bool has = backend::find_cpu_kernel(kernel->name) != nullptr ||
                     std::any_of(std::begin(cpu_kernels), std::end(cpu_kernels), [&](std::string_view name) { return kernels::definition_of(name) == kernel; });
    EXPECT_EQ(found > 0, has) << kernel->name << " is in " << found << " plans";
  }
}

// The reference backend may lack a kernel; then it is expanded.
TEST(Conformance, Reference) {
  for (const kernels::Definition* kernel : kernels::definitions()) conform(*kernel, "reference", "reference", times(15));
}

TEST(Conformance, Cuda) {
  SKIP_WITHOUT(nvrtc);
  const bool gpu = backend::cuda::gpu_missing().empty();
  for (const kernels::Definition* kernel : kernels::definitions()) {
    const int found = conform(*kernel, "cuda:sm_90", gpu ? "cuda" : nullptr, gpu ? times(20) : 4, gpu || everything() ? std::numeric_limits<int>::max() : 1);
    if (kernel->name == "implicit_gemm") {  // the CPU has none
      EXPECT_GT(found, 0);
    }
  }
}

}  // namespace
}  // namespace ingot::compile
