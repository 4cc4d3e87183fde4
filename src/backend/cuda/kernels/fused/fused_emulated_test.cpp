// Fused bodies whose operands lie in other orders, on the host: tiles in shared memory, against the CPU's kernel.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cuda/compile/emulated_test.h"

namespace ingot::backend::cuda {
namespace {

using ir::DType;
using Variant = kernels::FusedCudaArgs::Variant;

void check(const Case& c) {
  const Emitted e = emit(c.emitted_body(), c.layouts());
  const kernels::FusedCudaArgs args = kernels::parse_fused_cuda(e.arguments);
  std::vector<HostTensor> tensors = c.tensors, wanted = c.tensors;
  std::vector<TensorRef> refs;
  for (HostTensor& t : tensors) refs.push_back({t.bytes.data(), t.dtype, static_cast<int>(t.dims.size()), t.dims.data(), t.strides.data()});
  std::vector<int64_t> sizes;
  for (const ir::Dim& d : e.sizes) sizes.push_back(d.evaluate(c.symbols()));
  const std::vector<int64_t> domain = c.domain();
  sizes.insert(sizes.end(), domain.begin(), domain.end());
  kernels::FusedLaunch launch = kernels::resolve_fused_cuda(args, refs, sizes, 99 << 10);
  const auto& grid = launch.bind(refs, 0);
  if (args.variants[grid.variant].mapping != Variant::tile) {
    EXPECT_TRUE(c.name.starts_with("too short")) << c.name << " has no tiles";
    return;
  }
  kernels::CudaLaunches one;
  one.add_bytes(fmt::format("{}_{}", args.name, grid.variant), grid.blocks, grid.threads, launch.parameters, {});
  Emulated(e.text, std::vector<std::string>{one.list[0].kernel}, false).run(one, refs, false);
  std::vector<cpu::FusedStep::View> views;
  for (HostTensor& t : wanted) views.push_back({t.bytes.data(), t.dims, t.strides});
  cpu::FusedStep(c.body, views, inline_workers()).run();
  for (size_t n = 0; n < tensors.back().elements(); ++n) {
    const double want = wanted.back().get(n), digits = c.tensors.back().dtype == DType::f32 ? 1e-6 : 1e-2;
    ASSERT_NEAR(tensors.back().get(n), want, digits * std::max(1.0, std::abs(want))) << c.name << ", element " << n;
  }
}

TEST(cuda_fused_emulated, turned_operands_go_through_tiles) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Case& c : turned_cases()) {
    if (ir::is_float(c.tensors[0].dtype)) check(c);
  }
}

}  // namespace
}  // namespace ingot::backend::cuda
