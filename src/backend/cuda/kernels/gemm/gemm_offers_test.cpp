// What runs is what was offered: by name, for known and open sizes, and whatever implementation is the cheapest. Needs no GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "backend/compiler.h"
#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/gemm/gemm_sites_test.h"
#include "backend/cuda/kernels/gemm/gemm_step.h"

namespace ingot::backend::cuda {
namespace {

using ir::Dim;
using ir::DType;

// The case as a site whose result is the sum itself. Symbol 0 is an open number of rows, symbol 1 stands for strides of A.
struct Asked {
  Gemm gemm;
  FusedBody body;
  std::vector<StridedLayout> layouts;
  std::vector<HostTensor> tensors;
  std::vector<int64_t> symbols;

  Asked(const GemmCase& s, bool open) : symbols{s.m, 8} {
    gemm.type = s.type;
    gemm.map = s.map;
    gemm.m_rank = s.m_rank;
    gemm.constant = true;
    tensors = {s.a, s.encoded ? HostTensor(DType::i8, s.b.dims, {1, 0}) : s.b, HostTensor(s.type, {s.m, s.n})};
    if (s.encoded) gemm.encoding = ir::Encoding{.storage = DType::i8, .block = ir::Encoding::Block{0, 1}};
    gemm.a = layout_of(tensors[0]);
    gemm.b = {layout_of(tensors[1])};
    layouts = {layout_of(tensors[2])};
    body.outer = {s.m};
    body.row = {s.n};
    Instruction sum{};
    sum.kind = Instruction::Kind::accumulator;
    sum.dtype = DType::f32;
    body.code = {sum};
    body.operands = {s.type};
    body.stores = {{0, 0}};
    if (!open) return;
    if (gemm.map) {
      for (Dim& stride : gemm.a.strides) stride = Dim::symbol(1);
    } else {
      gemm.a.dims[0] = body.outer[0] = layouts[0].dims[0] = Dim::symbol(0);
      gemm.a.strides[0] = s.k;  // a tensor of one row has none
      layouts[0].strides[0] = s.n;
    }
  }
  // The steps of ingot's own implementations.
  std::vector<EmittedStep> steps(const Target& target) const {
    Settings settings;
    settings.tf32 = settings.tf32_convolutions = true;
    const Site site = site_of(gemm, &body, layouts);
    std::vector<EmittedStep> out;
    for (const Offer& o : compiler_for(target).offers(site, target, settings).offers) {
      if (!o.implementation.starts_with("gemm_") || o.implementation == "gemm_grouped_convolution") continue;
      out.push_back(o.emit());
      EXPECT_EQ(out.back().kernel, o.implementation);
    }
    return out;
  }
  // The kernel that the runtime would take.
  std::string ran(const EmittedStep& step, const kernels::CudaMachine& machine) const {
    std::vector<TensorRef> operands;
    for (const HostTensor& t : tensors) operands.push_back({nullptr, t.dtype, static_cast<int>(t.dims.size()), t.dims.data(), t.strides.data()});
    std::vector<int64_t> sizes;
    for (const Dim& d : step.sizes) sizes.push_back(d.evaluate(symbols));
    const auto constants = kernels::load_gemm_cuda(step.constants, operands.size(), sizes.size());
    Call call;
    call.operands = operands;
    call.sizes = sizes;
    call.constants = constants.get();
    return std::string(kernels::gemm_cuda_choice(call, machine));
  }
};

TEST(gemm_offers, what_runs_is_what_was_offered) {
  std::vector<GemmCase> cases;
  for (const auto& list : {half_cases(), float_cases(), encoded_cases(), skinny_cases(), volume_cases(), other_rank_cases()}) {
    for (const GemmCase& s : list) {
      if (s.prologue == Prologue::none && !s.gated && s.parts_of_b.empty() && s.rows.empty()) cases.push_back(s);
    }
  }
  std::map<std::string, int> ran, alternatives;
  for (const char* name : {"cuda:sm_80", "cuda:sm_90"}) {
    const Target target = *parse_target(name);
    for (const GemmCase& s : cases) {
      for (bool open : {false, true}) {
        SCOPED_TRACE(s.name + " for " + name + (open ? ", open" : ""));
        const Asked asked(s, open);
        const std::vector<EmittedStep> offered = asked.steps(target);
        for (const EmittedStep& step : offered) {
          // Compile makes one step of those that differ in nothing but the kernel.
          std::set<std::string> names;
          for (const EmittedStep& other : offered) {
            if (other.constants == step.constants) names.insert(other.kernel);
          }
          const std::string kernel = asked.ran(step, {132, std::string_view(name) == "cuda:sm_90"});
          EXPECT_TRUE(names.contains(kernel)) << kernel << " ran";
          EXPECT_EQ(names.size(), open ? offered.size() : 1);
          ++(open ? alternatives : ran)[kernel];
        }
      }
    }
  }
  for (const char* kernel : {"gemm_tiles", "gemm_implicit", "gemm_gemv", "gemm_skinny", "gemm_im2col_2d", "gemm_im2col_3d"}) EXPECT_GT(ran[kernel], 0) << kernel;
  for (const char* kernel : {"gemm_tiles", "gemm_implicit", "gemm_gemv"}) EXPECT_GT(alternatives[kernel], 0) << kernel;
}

}  // namespace
}  // namespace ingot::backend::cuda
