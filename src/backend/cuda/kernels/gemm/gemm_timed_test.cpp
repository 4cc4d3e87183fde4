// Timing of ingot's own GEMM kernel: which choices it offers, and that known timings and trials decide. Needs no GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "backend/compiler.h"
#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/gemm/run/implementation.h"
#include "backend/cuda/kernels/gpu_step_test.h"
#include "backend/cuda/run/gpu.h"

namespace ingot::kernels {
std::span<const RunKernel> matmul_cuda_kernels();
std::span<const RunKernel> gemm_tiles_cuda_kernels();
}  // namespace ingot::kernels

namespace ingot::backend::cuda {
namespace {

using ir::Dim;
using ir::DType;

// D = A B of half precision, with B contiguous along K.
struct TimedGemm {
  int64_t m, n, k;
  Gemm gemm{};
  FusedBody body;
  std::vector<StridedLayout> layouts;

  TimedGemm(int64_t m, int64_t n, int64_t k) : m(m), n(n), k(k) {
    gemm.type = DType::f16;
    gemm.a = {{m, k}, {k, 1}};
    gemm.b = {{{k, n}, {1, k}}};
    gemm.constant = true;
    body.outer = {m};
    body.row = {n};
    Instruction accumulator{};
    accumulator.kind = Instruction::Kind::accumulator;
    accumulator.dtype = DType::f32;
    body.code = {accumulator};
    body.operands = {DType::f16};
    body.stores = {{0, 0}};
    layouts = {{{m, n}, {n, 1}}};
  }
  Site site() const { return site_of(gemm, &body, layouts); }
  Offers offers(bool rivals, const char* target = "cuda:sm_90") const {
    Settings settings;
    settings.rivals = rivals;
    const Target t = *parse_target(target);
    return compiler_for(t).offers(site(), t, settings);
  }
};

// Its launches on a machine of 132 multiprocessors, with a trial or known timings.
kernels::CudaLaunches launches(const TimedGemm& p, const Timing* trial = nullptr, const std::map<std::string, std::string, std::less<>>* timed = nullptr) {
  const Taken own = own_gemm(p.gemm, p.body, p.layouts, true);
  const int64_t dims[3][2] = {{p.m, p.k}, {p.k, p.n}, {p.m, p.n}}, strides[3][2] = {{p.k, 1}, {1, p.k}, {p.n, 1}};
  std::vector<TensorRef> operands;
  for (int i = 0; i < 3; ++i) operands.push_back({nullptr, DType::f16, 2, dims[i], strides[i]});
  std::vector<int64_t> sizes;
  for (const Dim& d : own.step.sizes) sizes.push_back(d.value());
  const auto constants = kernels::load_gemm_cuda(own.step.constants, operands.size(), sizes.size());
  Call call;
  call.operands = operands;
  call.sizes = sizes;
  call.constants = constants.get();
  call.trial = trial;
  return kernels::gemm_cuda_launches(call, {132, true, timed});
}
std::string tile_of(const kernels::CudaLaunches& l) { return l.list[0].kernel.substr(l.list[0].kernel.rfind('_') + 1); }

TEST(gemm_timed, a_choice_overrides_the_model_at_its_size) {
  const TimedGemm p(512, 1024, 1024);
  const kernels::CudaLaunches usual = launches(p);
  ASSERT_GT(usual.choices.size(), 2u);
  EXPECT_LE(usual.choices.size(), 8u);
  EXPECT_EQ(std::set(usual.choices.begin(), usual.choices.end()).size(), usual.choices.size());
  std::set<std::string> launched;
  for (const std::string& choice : usual.choices) {
    SCOPED_TRACE(choice);
    const Timing trial{"a machine", usual.problem, choice};
    const kernels::CudaLaunches tried = launches(p, &trial);
    launched.insert(tile_of(tried) + (tried.list.size() > 1 ? ", finished" : "") + std::to_string(tried.list[0].work_tiles));
    // A known timing gives the same launches as a trial. A trial overrides a known timing.
    const std::map<std::string, std::string, std::less<>> timed = {{usual.problem, choice}};
    EXPECT_EQ(launches(p, nullptr, &timed).list[0].parameters, tried.list[0].parameters);
    EXPECT_EQ(tile_of(launches(p, nullptr, &timed)), tile_of(tried));
    const Timing first{"a machine", usual.problem, usual.choices[0]};
    EXPECT_EQ(tile_of(launches(p, &first, &timed)), tile_of(usual));
    // The list of choices does not depend on the choice.
    EXPECT_EQ(tried.choices, usual.choices);
    EXPECT_EQ(tried.problem, usual.problem);
  }
  EXPECT_EQ(launched.size(), usual.choices.size());
  const Timing none{"a machine", usual.problem, usual.choices[0]};
  EXPECT_EQ(launches(p, &none).list[0].parameters, usual.list[0].parameters);
}

TEST(gemm_timed, the_model_decides_for_other_sizes_and_unknown_choices) {
  const TimedGemm p(512, 1024, 1024), other(640, 1024, 1024);
  const kernels::CudaLaunches usual = launches(p), others = launches(other);
  EXPECT_NE(usual.problem, others.problem);
  const std::map<std::string, std::string, std::less<>> timed = {{usual.problem, usual.choices[1]}};
  EXPECT_EQ(launches(other, nullptr, &timed).list[0].parameters, others.list[0].parameters);
  for (const char* unknown : {"cublaslt 3", "gemm_tiles", "gemm_tiles 4096 x 4096, 5 stages, 2 in turn, K by 1"}) {
    const Timing trial{"a machine", usual.problem, unknown};
    EXPECT_EQ(launches(p, &trial).list[0].kernel, usual.list[0].kernel) << unknown;
    EXPECT_EQ(launches(p, &trial).list[0].parameters, usual.list[0].parameters) << unknown;
  }
  // One row has a kernel of its own, without choices.
  EXPECT_TRUE(launches(TimedGemm(1, 1024, 1024)).choices.empty());
}

// If an offer names tunables, its kernel has RunKernel::tunables.
TEST(gemm_timed, tunables_of_offers_are_those_of_kernels) {
  auto tunable = [](const TimedGemm& p, const char* target) {
    std::vector<std::string> out;
    for (const Offer& o : p.offers(true, target).offers) {
      if (!o.tunables.empty()) out.emplace_back(o.implementation);
    }
    return out;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(tunable(TimedGemm(512, 1024, 1024), "cuda:sm_90"), (Names{"cublaslt", "gemm_tiles"}));
  EXPECT_EQ(tunable(TimedGemm(512, 1024, 1024), "cuda:sm_80"), (Names{"cublaslt"}));
  EXPECT_EQ(tunable(TimedGemm(1, 1024, 1024), "cuda:sm_90"), (Names{"cublaslt"}));
  auto has = [](std::span<const RunKernel> list, std::string_view name) {
    return std::any_of(list.begin(), list.end(), [&](const RunKernel& k) { return k.name == name && k.tunables != nullptr; });
  };
  EXPECT_TRUE(has(kernels::matmul_cuda_kernels(), "matmul"));
  EXPECT_TRUE(has(kernels::gemm_tiles_cuda_kernels(), "gemm_tiles"));
}

// Timing may decide between the library and the tiles, or on sm_80 the warps, and not between all: costs say so (is_near).
TEST(gemm_timed, near_rivals_are_near) {
  auto near = [](const Offers& offers) {
    std::string out;
    double least = offers.offers[0].cost;
    for (const Offer& o : offers.offers) least = std::min(least, o.cost);
    for (const Offer& o : offers.offers) out += is_near(o.cost, least) ? std::string(o.implementation) + " " : "";
    return out;
  };
  const TimedGemm p(1024, 1024, 1024);
  EXPECT_EQ(near(p.offers(true)), "cublaslt gemm_tiles ");
  EXPECT_EQ(near(p.offers(true, "cuda:sm_80")), "cublaslt ");  // gemm_implicit costs more than twice as much
  EXPECT_TRUE(is_near(2, 1) && is_near(1, 1) && !is_near(2.1, 1) && !is_near(1, 0));
}

}  // namespace
}  // namespace ingot::backend::cuda
