// Fused bodies on the host, against the CPU's kernel: operands that lie in other orders, through tiles in shared memory; steps that are joined.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cuda/available_test.h"
#include "backend/cuda/compile/emulated_test.h"
#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/concurrent/concurrent.h"
#include "backend/cuda/kernels/concurrent/part.h"
#include "backend/cuda/kernels/concurrent/run/concurrent_launches.h"

namespace ingot::backend::cuda {
namespace {

using ir::DType;
using Variant = kernels::FusedCudaArgs::Variant;

// `all`: every operand, of which the body writes the last ones.
void expect_results(const Case& c, const std::vector<HostTensor>& all) {
  std::vector<HostTensor> wanted = c.tensors;
  std::vector<cpu::FusedStep::View> views;
  for (HostTensor& t : wanted) views.push_back({t.bytes.data(), t.dims, t.strides});
  cpu::FusedStep(c.body, views, inline_workers()).run();
  for (size_t k = wanted.size() - c.body.stores.size(); k < wanted.size(); ++k) {
    for (size_t n = 0; n < wanted[k].elements(); ++n) {
      const double want = wanted[k].get(n), digits = wanted[k].dtype == DType::f32 ? 1e-6 : 1e-2;
      ASSERT_NEAR(all[k].get(n), want, digits * std::max(1.0, std::abs(want))) << c.name << ", operand " << k << ", element " << n;
    }
  }
}

void check(const Case& c) {
  const Emitted e = emit(c.emitted_body(), c.layouts());
  const kernels::FusedCudaArgs args = kernels::parse_fused_cuda(e.arguments);
  std::vector<HostTensor> tensors = c.tensors;
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
  one.add_bytes(grid.kernel(args), grid.blocks, grid.threads, launch.parameters, {});
  Emulated(e.code.text, std::vector<std::string>{one.list[0].kernel}, false).run(one, refs, false);
  expect_results(c, tensors);
}

TEST(cuda_fused_emulated, transposed_operands_go_through_tiles) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Case& c : transposed_cases()) {
    if (ir::is_float(c.tensors[0].dtype)) check(c);
  }
}

// The step that compile makes of a case whose operands' addresses are aligned, or not known.
EmittedStep step_of(const Case& c, bool aligned) {
  const FusedBody body = c.emitted_body();
  Site site{Fused{}, &body};
  add_body(site, c.layouts());
  for (Operand& o : site.operands) o.aligned = aligned;
  std::vector<ir::Symbol> symbols;
  for (int64_t usual : c.symbols()) {
    symbols.emplace_back();
    symbols.back().opt = usual;
  }
  site.symbols = symbols;
  Offers offers;
  fused_offers(site, {}, {}, offers);
  return offers.offers.at(0).emit();
}

// Norms of other numbers of rows and images. The text is one; the longest is not always the first.
// Empty: the step can be no part.
std::string name_of_part(const EmittedStep& step) { return part_of(step) == nullptr ? "" : part_of(step)->name; }

std::vector<std::vector<Case>> joined_cases() {
  const std::vector<size_t> strided = {1, 0, 2}, columns = {0, 2, 1};
  std::vector<std::vector<Case>> out;
  auto add = [&](DType t, int64_t length, const std::vector<size_t>& order, std::initializer_list<std::vector<int64_t>> outer) {
    out.emplace_back();
    for (const std::vector<int64_t>& o : outer) out.back().push_back(scaled_norm_case(t, {o[0], o[1], length}, order));
  };
  add(DType::f16, 1536, strided, {{2, 4}, {2, 2}});  // a block for each row
  add(DType::f32, 768, strided, {{3, 2}, {2, 4}, {2, 2}});
  add(DType::bf16, 48, strided, {{2, 3}, {3, 9}});  // lanes
  add(DType::f32, 50, columns, {{2, 40}, {3, 40}});  // threads one below the other
  add(DType::f32, 20, columns, {{2, 70}, {5, 70}});  // a thread
  return out;
}

void check_joined(const std::vector<Case>& cases, Where where, bool shifted) {
  SCOPED_TRACE(fmt::format("{} times {}, way {}{}", cases.size(), cases[0].name, static_cast<int>(where), shifted ? ", shifted" : ""));
  std::vector<std::vector<HostTensor>> tensors;
  std::vector<PrintedPart> parts;
  for (const Case& c : cases) tensors.push_back(c.tensors);
  for (size_t k = 0; k < cases.size(); ++k) {
    parts.push_back({step_of(cases[k], !shifted), cases[k].body.stores.size(), {}});
    for (HostTensor& t : tensors[k]) parts.back().tensors.push_back(&t);
    EXPECT_EQ(name_of_part(parts[k].step), name_of_part(parts[0].step));
    EXPECT_FALSE(name_of_part(parts[k].step).empty());
  }
  run_joined(parts, where, shifted ? 1 : 0, 4);
  for (size_t k = 0; k < cases.size(); ++k) expect_results(cases[k], tensors[k]);
}

TEST(cuda_fused_emulated, joined_steps_equal_the_cpu) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  const std::vector<std::vector<Case>> all = joined_cases();
  for (const std::vector<Case>& cases : all) check_joined(cases, Where::early, false);
  check_joined(all[1], Where::early, true);
}

TEST(cuda_fused, joined_steps_equal_the_cpu) {
  SKIP_WITHOUT(gpu);
  for (const std::vector<Case>& cases : joined_cases()) check_joined(cases, Where::gpu, false), check_joined(cases, Where::gpu, true);
}

// What the joined cases launch on 132 multiprocessors.
std::vector<kernels::CudaLaunch> joined_launches(const std::vector<Case>& cases) {
  std::vector<EmittedStep> made;
  std::vector<Concurrent::Part> parts;
  for (const Case& c : cases) made.push_back(step_of(c, true));
  for (size_t k = 0; k < cases.size(); ++k) parts.push_back({&made[k], cases[k].body.stores.size(), std::vector<Operand>(cases[k].tensors.size(), {Role::body, DType::f32, {}})});
  const EmittedStep joined = join_steps(parts);
  EXPECT_EQ(joined.code.size(), 1);
  std::vector<TensorRef> operands;
  for (const bool written : {false, true}) {
    for (const Case& c : cases) {
      for (size_t k = 0; k < c.tensors.size(); ++k) {
        const HostTensor& t = c.tensors[k];
        if ((k + c.body.stores.size() >= c.tensors.size()) == written) operands.push_back({nullptr, t.dtype, static_cast<int>(t.dims.size()), t.dims.data(), t.strides.data()});
      }
    }
  }
  std::vector<int64_t> sizes;
  for (size_t k = 0; k < cases.size(); ++k) {
    for (const ir::Dim& d : made[k].sizes) sizes.push_back(d.evaluate(cases[k].symbols()));
  }
  const auto constants = kernels::load_concurrent_cuda(joined.constants, operands.size(), sizes.size());
  Call call;
  call.operands = operands;
  call.sizes = sizes;
  call.constants = constants.get();
  return kernels::concurrent_cuda_launches(call, {132, true}).list;
}

TEST(cuda_fused, joined_steps_are_rows_of_one_launch) {
  for (const std::vector<Case>& cases : joined_cases()) {
    const auto launches = joined_launches(cases);
    ASSERT_EQ(launches.size(), 1) << cases[0].name;
    EXPECT_EQ(launches[0].blocks_y, cases.size()) << cases[0].name;
  }
}

// The number of threads of a row of open length depends on the length.
TEST(cuda_fused, rows_of_other_lengths_keep_their_threads) {
  const std::vector<Case> cases = {row_sum_case(DType::f32, 64, 2048), row_sum_case(DType::f32, 64, 8192)};
  const std::string alike = name_of_part(step_of(cases[0], true));
  ASSERT_NE(alike, "");
  ASSERT_EQ(alike, name_of_part(step_of(cases[1], true)));
  const auto launches = joined_launches(cases);
  ASSERT_EQ(launches.size(), 2);
  EXPECT_LT(launches[0].threads, launches[1].threads);
}

TEST(cuda_fused, only_short_reductions_of_small_tensors_are_joined) {
  auto alike = [](Case c, int64_t rows) {
    c.body.outer[0] = rows;
    for (HostTensor& t : c.tensors) t.dims[0] = t.dims[0] == 1 ? 1 : rows;
    return name_of_part(step_of(c, true));
  };
  const Case norm = layer_norm_case(DType::f16, 3, 1536, false);
  EXPECT_FALSE(alike(norm, 5000).empty());
  EXPECT_EQ(alike(norm, 5000), alike(norm, 300));
  EXPECT_NE(alike(norm, 300), alike(layer_norm_case(DType::f16, 3, 1024, false), 300));
  EXPECT_TRUE(alike(norm, 6000).empty()) << "many bytes";
  EXPECT_TRUE(alike(layer_norm_case(DType::f16, 3, 40000, false), 3).empty()) << "rows in shared memory";
  EXPECT_TRUE(alike(activation_case(DType::f16, 3, 1536), 3).empty()) << "no reduction";
}

}  // namespace
}  // namespace ingot::backend::cuda
