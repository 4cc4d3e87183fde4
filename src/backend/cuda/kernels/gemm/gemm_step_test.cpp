// The code of a step has the kernels that its launches use, and no more where its sizes are known. Needs no GPU.
#include <gtest/gtest.h>

#include <cstdlib>

#include <algorithm>
#include <set>

#include "backend/compiler.h"
#include "backend/cuda/available_test.h"
#include "backend/cuda/kernels/gemm/gemm_sites_test.h"
#include "backend/cuda/kernels/gemm/gemm_step.h"
#include "backend/cuda/kernels/gemm/run/gemm_args.h"
#include "backend/cuda/kernels/gemm/run/implementation.h"
#include "backend/cuda/kernels/gpu_step_test.h"

namespace ingot::backend::cuda {
namespace {

using ir::Dim;
using ir::DType;

// The code of a step that computes A B, with B contiguous along K.
struct CodeOfGemm {
  int64_t m, n, k;
  DType type;
  Gemm gemm{};
  FusedBody body;
  std::vector<StridedLayout> layouts;

  CodeOfGemm(Dim rows, int64_t n, int64_t k, DType type) : m(rows.constant().value_or(0)), n(n), k(k), type(type) {
    gemm.type = type;
    gemm.a = {{rows, k}, {k, 1}};
    gemm.b = {{{k, n}, {1, k}}};
    gemm.constant = true;
    body.outer = {rows};
    body.row = {n};
    Instruction accumulator{};
    accumulator.kind = Instruction::Kind::accumulator;
    accumulator.dtype = DType::f32;
    body.code = {accumulator};
    body.operands = {type};
    body.stores = {{0, 0}};
    layouts = {{{rows, n}, {n, 1}}};
  }
  EmittedStep whole(bool large = true) const { return own_gemm(gemm, body, layouts, large).step; }
  // `aligned`: of A, B and the result.
  // The cheapest implementation's.
  EmittedStep split(bool timed, bool large = true, const std::vector<bool>& aligned = {}) const {
    const GemmSiteAnswer found = gemm_site(gemm, body, layouts, large);
    Site site = site_of(gemm, &body, layouts);
    for (size_t k = 0; k < aligned.size(); ++k) site.operands[k].aligned = aligned[k];
    std::optional<EmittedStep> best;
    double least = std::numeric_limits<double>::infinity();
    OpenGemm text;
    for (const GemmCompiler* c : gemm_compilers()) {
      const double cost = c->may(*found.site) ? c->run.cost(gemm_sizes(site, gemm, *parse_target(large ? "cuda:sm_90" : "cuda:sm_80"), {})) : least;
      if (cost >= least) continue;
      auto step = gemm_step(*c, *found.site, site, timed, text);
      if (step) best = std::move(step), least = cost;
    }
    return best.value();
  }

  kernels::CudaLaunches launches(const EmittedStep& step, int multiprocessors, bool tiles, const std::map<std::string, std::string, std::less<>>* timed = nullptr) const {
    const int64_t dims[3][2] = {{m, k}, {k, n}, {m, n}}, strides[3][2] = {{k, 1}, {1, k}, {n, 1}};
    std::vector<TensorRef> operands;
    for (int i = 0; i < 3; ++i) operands.push_back({nullptr, type, 2, dims[i], strides[i]});
    std::vector<int64_t> sizes;
    for (const Dim& d : step.sizes) sizes.push_back(d.value());
    const auto constants = kernels::load_gemm_cuda(step.constants, operands.size(), sizes.size());
    Call call;
    call.operands = operands;
    call.sizes = sizes;
    call.constants = constants.get();
    return kernels::gemm_cuda_launches(call, {multiprocessors, tiles, timed});
  }
};

// What is after the name, which is a hash of the step's text.
std::string suffix_of(const std::string& kernel) { return kernel.substr(std::string("gemm_0123456789abcdef").size()); }
std::set<std::string> suffixes_of(const EmittedStep& step) {
  std::set<std::string> out;
  for (const CodeUnit& u : step.code) {
    for (const std::string& k : u.kernels) out.insert(suffix_of(k));
  }
  return out;
}

std::set<std::string> kernels_of(const EmittedStep& step) {
  std::set<std::string> out;
  for (const CodeUnit& u : step.code) out.insert(u.kernels.begin(), u.kernels.end());
  return out;
}

// `aligned`: what the site says about the step's three operands.
void expect_code_for(const EmittedStep& step, const kernels::CudaLaunches& launches, const std::vector<bool>& aligned = {}) {
  const std::set<std::string> there = kernels_of(step);
  for (const kernels::CudaLaunch& l : launches.list) EXPECT_TRUE(there.contains(l.kernel)) << l.kernel;
  const bool may_be_unaligned = std::any_of(launches.aligned.begin(), launches.aligned.end(), [&](size_t k) { return aligned.empty() || !aligned[k]; });
  for (const kernels::CudaLaunch& l : launches.any) EXPECT_TRUE(there.contains(l.kernel) || !may_be_unaligned) << l.kernel;
}

// A caller's memory is aligned by chance, the plan's always: all of a step's operands, all but A, none.
const std::vector<std::vector<bool>> alignments = {{true, true, true}, {false, true, true}, {}};

TEST(gemm_step, has_every_kernel_that_known_sizes_use_on_any_gpu) {
  for (DType type : {DType::f16, DType::bf16, DType::f32}) {
    for (int64_t m : {1, 7, 100, 512, 5000, 100000}) {
      for (int64_t n : {8, 96, 320, 2048}) {
        for (int64_t k : {8, 12, 100, 1024, 8192}) {
          SCOPED_TRACE(fmt::format("{} {} x {} x {}", ir::name_of(type), m, n, k));
          const CodeOfGemm p(m, n, k, type);
          const Taken whole = own_gemm(p.gemm, p.body, p.layouts, true);
          if (whole.obstacle) continue;
          for (bool timed : {false, true}) {
            for (const std::vector<bool>& aligned : alignments) {
              const EmittedStep step = p.split(timed, true, aligned);
              for (int multiprocessors : {1, 16, 66, 78, 114, 132, 148, 1000}) {
                const kernels::CudaLaunches here = p.launches(step, multiprocessors, true);
                expect_code_for(step, here, aligned);
                // Whatever can be timed has its kernel too.
                for (const std::string& choice : here.choices) {
                  const std::map<std::string, std::string, std::less<>> wanted = {{here.problem, choice}};
                  expect_code_for(step, p.launches(step, multiprocessors, true, &wanted), aligned);
                }
              }
            }
          }
        }
      }
    }
  }
}

// Code for sm_80 also runs on Hopper, as PTX. It has no large tiles, so launches there must not use them.
TEST(gemm_step, without_large_tiles_has_every_kernel_on_any_gpu) {
  for (int64_t m : {1, 100, 5000}) {
    const CodeOfGemm p(m, 320, 1024, DType::f16);
    const EmittedStep step = p.split(false, false);
    for (bool hopper : {false, true}) {
      for (int multiprocessors : {1, 58, 108, 132, 1000}) {
        expect_code_for(step, p.launches(step, multiprocessors, hopper));
      }
    }
  }
}

TEST(gemm_step, of_known_sizes_is_a_part_and_of_open_ones_is_whole) {
  const CodeOfGemm known(512, 1024, 1024, DType::f16);
  const EmittedStep whole = known.whole(), step = known.split(false);
  const std::set<std::string> all(whole.code[0].kernels.begin(), whole.code[0].kernels.end());
  EXPECT_LE(2 * kernels_of(step).size(), all.size());
  EXPECT_GT(kernels_of(known.split(true)).size(), kernels_of(step).size());
  // The choice of before is the choice now.
  EXPECT_EQ(suffix_of(known.launches(step, 132, true).list[0].kernel), suffix_of(known.launches(whole, 132, true).list[0].kernel));

  const CodeOfGemm open(Dim::symbol(0), 1024, 1024, DType::f16);
  const EmittedStep parts = open.split(false);
  EXPECT_EQ(suffixes_of(parts), suffixes_of(open.whole()));
  for (const CodeUnit& u : parts.code) {
    for (const std::string& kernel : u.kernels) EXPECT_NE(u.text.find(" " + kernel + "("), std::string::npos) << kernel;
  }
}

// A convolution of 3 x 3 (x 3) over 8 images of 28 x 28, or over one volume of 8 x 28 x 28, to 32 channels.
CodeOfGemm convolution(DType type, int64_t channels, bool volume) {
  const int64_t k = (volume ? 27 : 9) * channels;
  CodeOfGemm p(8 * 28 * 28, 32, k, type);
  p.gemm.a = {{8, 28, 28, channels}, {28 * 28 * channels, 28 * channels, channels, 1}};
  p.gemm.map = windows_of(8, 28, 28, channels, 3, 1, 1);
  if (volume) {
    p.gemm.map->dims = {8, 28, 28, 3, 3, 3, channels};
    p.gemm.map->axes = {{-1, {{0, 1}, {3, 1}}}, {-1, {{1, 1}, {4, 1}}}, {-1, {{2, 1}, {5, 1}}}, {0, {{6, 1}}}};
  }
  p.gemm.m_rank = 3;
  return p;
}

// The first layer of a network of images.
CodeOfGemm first_layer(DType type) {
  const GemmCase s = few_channels({2, 32, 32, 3, 3, 3, 1, 1, 32, true, true, type});
  CodeOfGemm p(s.m, s.n, s.k, type);
  p.gemm.a = layout_of(s.a);
  p.gemm.b = {layout_of(s.b)};
  p.gemm.map = s.map;
  p.gemm.m_rank = s.m_rank;
  return p;
}

// Each unit is compiled alone, or together with small ones. A plain run compiles one unit alone of each kind, and together those of steps of which a kind was new; INGOT_TEST_ALL=1 all.
TEST(gemm_step, a_unit_has_the_libraries_that_it_uses) {
  if (std::string why = nvrtc_missing(); !why.empty()) GTEST_SKIP() << why;
  std::vector<CodeOfGemm> all;
  for (DType type : {DType::f16, DType::f32}) {
    for (bool volume : {false, true}) {
      for (int64_t channels : {16, 64}) all.push_back(convolution(type, channels, volume));
    }
    all.push_back(first_layer(type));
    for (int64_t rows : {1, 4, 64}) all.emplace_back(rows, 512, 4096, type);
  }
  all.emplace_back(Dim::symbol(0), 256, 512, DType::bf16);
  const Target target = cuda_target(90);
  const bool everything = std::getenv("INGOT_TEST_ALL") != nullptr;
  std::set<std::string> kinds;
  for (const CodeOfGemm& p : all) {
    bool news = false;
    const EmittedStep step = p.split(false);
    const size_t name = kernels::parse_gemm_cuda(step.constants).name.size() + 1;
    for (const CodeUnit& unit : step.code) {
      const std::string suffix = unit.name.substr(name);
      if (!kinds.insert(suffix.substr(0, suffix.find_first_of("0123456789"))).second && !everything) continue;
      EXPECT_NO_THROW(compiler_for(target).compile({&unit, 1}, target)) << unit.name;
      news = true;
    }
    if (!news && !everything) continue;
    EXPECT_NO_THROW(compiler_for(target).compile(step.code, target)) << step.kernel;
  }
  for (const char* kind : {"", "any_", "one_", "t", "image_", "volume", "row", "rows", "any_row", "any_rows", "finish", "any_finish"}) EXPECT_TRUE(kinds.contains(kind)) << kind;
}

TEST(gemm_step, of_aligned_operands_has_no_kernels_for_other_addresses) {
  const CodeOfGemm p(512, 1024, 1024, DType::f16);
  auto for_any_address = [](const EmittedStep& step) {
    const std::set<std::string> all = kernels_of(step);
    return std::any_of(all.begin(), all.end(), [](const std::string& k) { return k.find("_any_") != std::string::npos; });
  };
  EXPECT_FALSE(for_any_address(p.split(false, true, {true, true, true})));
  for (size_t k = 0; k < 3; ++k) {
    std::vector<bool> aligned(3, true);
    aligned[k] = false;
    EXPECT_TRUE(for_any_address(p.split(false, true, aligned))) << k;
  }
}

}  // namespace
}  // namespace ingot::backend::cuda
