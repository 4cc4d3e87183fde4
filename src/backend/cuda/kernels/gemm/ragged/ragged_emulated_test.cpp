// Products of experts on the host and, if there is one, on a GPU: every tile, layout and type, experts with no rows, with all, and rows of no expert, against sums in double.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "backend/cpu/compile/body_builder_test.h"
#include "backend/cuda/available_test.h"
#include "backend/cuda/compile/emulated_test.h"
#include "backend/cuda/compile/local_bytes_test.h"
#include "backend/cuda/compile/matrix_text.h"
#include "backend/cuda/compile/prelude.h"
#include "backend/cuda/kernels/gemm/gemm_sites_test.h"
#include "backend/cuda/kernels/gemm/run/implementation.h"
#include "backend/cuda/kernels/gpu_step_test.h"

namespace ingot::backend::cuda {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;

struct Experts {
  std::vector<int64_t> row_ends;
  int64_t m, n, k;              // n: columns of the result
  bool along_k = true, gated = false;
  DType type = DType::f16, ends = DType::i32;
  size_t shift = 0;             // of addresses, in elements
};

// Tensors, and the step. The epilogue: (sum + bias[n]) * residual[m, n]; gated it is silu(sum) * the other half's sum in place of the sum.
struct Product {
  HostTensor a, b, ends, bias, residual, y;
  cpu::BodyBuilder body;
  Taken made;

  Product(const Experts& s, bool hopper)
      : a(s.type, {s.m, s.k}),
        b(s.type, {static_cast<int64_t>(s.row_ends.size()), s.k, s.gated ? 2 * s.n : s.n}, s.along_k ? std::vector<size_t>{0, 2, 1} : std::vector<size_t>{}),
        ends(s.ends, {static_cast<int64_t>(s.row_ends.size())}),
        bias(s.type, {1, s.n}),
        residual(s.type, {s.m, s.n}),
        y(s.type, {s.m, s.n}),
        body({s.m}, {s.n}) {
    uint32_t seed = 0;
    for (HostTensor* t : {&a, &b, &bias, &residual}) t->fill(++seed, true);
    for (size_t e = 0; e < s.row_ends.size(); ++e) ends.set(e, static_cast<double>(s.row_ends[e]));
    Instruction sum{};
    sum.kind = Instruction::Kind::accumulator;
    sum.dtype = DType::f32;
    Reg value = body.push(sum);
    const Reg of_bias = body.load(s.type), of_residual = body.load(s.type);
    if (s.gated) {
      sum.half = 1;
      value = body.map(Op::mul, DType::f32, {body.map(Op::silu, DType::f32, {value}), body.push(sum)});
    }
    body.store(s.type, body.map(Op::mul, DType::f32, {body.map(Op::add, DType::f32, {value, of_bias}), of_residual}));
    const Operand row_ends{Role::row_ends, s.ends, layout_of(ends)};
    Gemm g;
    g.type = s.type;
    g.gated = s.gated;
    g.a = layout_of(a);
    g.b = {layout_of(b)};
    g.row_ends = &row_ends;
    made = own_gemm(g, body.body, {layout_of(bias), layout_of(residual), layout_of(y)}, hopper);
  }
  Product(const Product&) = delete;
};

void check(const Experts& s, Where where) {
  const auto experts = static_cast<int64_t>(s.row_ends.size());
  SCOPED_TRACE(fmt::format("{} experts, {} x {} x {}, {}{}{}, way {}", experts, s.m, s.n, s.k, ir::name_of(s.type), s.along_k ? ", along K" : "", s.gated ? ", gated" : "",
                           static_cast<int>(where)));
  Product p(s, where >= Where::early_groups);
  ASSERT_EQ(p.made.obstacle, std::nullopt);
  ASSERT_EQ(p.made.step.kernel, "gemm_ragged");
  std::vector<int64_t> sizes;
  for (const Dim& d : p.made.step.sizes) sizes.push_back(d.value());
  const CodeUnit& code = p.made.step.code[0];
  run_printed({p.made.step, code.name, text_with_libraries(code), code.kernels, kernels::load_gemm_cuda, kernels::gemm_cuda_launches},
              {&p.a, &p.b, &p.ends, &p.bias, &p.residual, &p.y}, sizes, where, s.shift, 1);
  const HostTensor &a = p.a, &b = p.b, &bias = p.bias, &residual = p.residual, &y = p.y;

  auto number = [&](double x) {  // as it is multiplied
    GemmCase of = plain(1, 8, 8, true, s.type);
    return of.multiplied(x);
  };
  // A GPU's instructions may round a tie of floats to TF32 the other way.
  const double tie = s.type == DType::f32 ? std::ldexp(1.0, -10) : 0, rounding = s.type == DType::f16 ? 1e-3 : s.type == DType::bf16 ? 8e-3 : 0;
  for (int64_t i = 0, e = 0; i < s.m; ++i) {
    while (e < experts && i >= s.row_ends[static_cast<size_t>(e)]) ++e;
    for (int64_t j = 0; j < s.n; ++j) {
      double sums[2] = {0, 0}, size = 0;
      for (int64_t half = 0; half < (s.gated ? 2 : 1) && e < experts; ++half) {
        for (int64_t q = 0; q < s.k; ++q) {
          const double term = number(at(a, {i, q})) * number(at(b, {e, q, j + half * s.n}));
          sums[half] += term;
          size += std::abs(term);
        }
      }
      const double x = s.gated ? sums[0] / (1 + std::exp(-sums[0])) * sums[1] : sums[0], of = at(residual, {i, j}), wanted = (x + at(bias, {0, j})) * of;
      const double bound = (1e-5 + tie) * (1 + size) * (s.gated ? 1 + size : 1) * (1 + std::abs(of)) + rounding * std::abs(wanted);
      ASSERT_NEAR(at(y, {i, j}), wanted, bound) << "element " << i << ", " << j << " of expert " << e;
    }
  }
}

std::vector<Experts> cases() {
  return {
      {{3, 3, 10, 11}, 11, 40, 72},                                                                // few rows, one expert without any
      {{0, 5, 5, 8, 9}, 12, 136, 136, true, false, DType::bf16, DType::i64},                       // rows after the last end
      {{70, 70, 200}, 230, 264, 200},                                                              // tiles of 64 rows
      {{300, 300, 600}, 600, 136, 72, true, false, DType::bf16},                                   // tiles of 128
      {{0, 0, 0, 90}, 90, 72, 64, false},                                                          // all rows of the last, B along N
      {{5, 17, 20}, 20, 72, 136, false, false, DType::bf16, DType::i64},
      {{260, 500}, 500, 200, 72, false},
      {{4, 9}, 9, 136, 72, true, true},                                                            // gated
      {{20, 100, 130}, 131, 136, 136, true, true, DType::bf16},
      {{250, 500}, 500, 72, 72, true, true},
      {{3, 9, 12}, 14, 40, 36, true, false, DType::f32},                                           // floats
      {{30, 60, 130}, 131, 72, 68, false, false, DType::f32, DType::i64},
      {{40, 90, 130}, 131, 72, 72, true, false, DType::f16, DType::i32, 1},                        // odd addresses
      {{40, 90}, 95, 72, 72, false, false, DType::bf16, DType::i64, 1},
      {{1}, 1, 16, 8},                                                                             // one row
      {std::vector<int64_t>(70, 2), 3, 16, 8},                                                     // more experts than lanes of a warp
      {{0, 0}, 4, 16, 8},                                                                          // nobody has any
  };
}

TEST(cuda_experts_emulated, equal_sums) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Experts& s : some(cases(), 12)) {
    for (Where where : emulations) {
      check(s, where);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(cuda_experts, equal_sums) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Experts& s : some(cases(), 3)) check(s, Where::gpu);
  check({{100, 1000, 1000, 1900}, 2000, 1536, 2048, true, true, DType::bf16}, Where::gpu);
  check({{100, 1000, 1000, 1900}, 2000, 2048, 768, true, false, DType::bf16}, Where::gpu);
}

TEST(cuda_experts, tiles_spill_no_registers) {
  if (std::getenv("INGOT_TEST_ALL") == nullptr) GTEST_SKIP() << "INGOT_TEST_ALL=1 compiles all shapes";
  if (std::string why = nvrtc_missing(); !why.empty()) GTEST_SKIP() << why;
  std::vector<CompileJob> jobs;
  for (const bool gated : {false, true}) {
    const Product p({{64, 128}, 128, 256, 128, true, gated, DType::bf16}, true);
    ASSERT_EQ(p.made.obstacle, std::nullopt);
    jobs.push_back({std::string(prelude()) + matrix_texts() + text_with_libraries(p.made.step.code[0]), 90, CompileJob::Form::cubin, true});
  }
  for (const std::vector<std::byte>& code : compile(jobs).code) {
    size_t found = 0;
    for (const auto& [kernel, bytes] : local_bytes(code)) {
      ++found;
      EXPECT_TRUE(bytes == 0 || kernel.find("_any_") != std::string::npos) << kernel << ": " << bytes;
    }
    EXPECT_EQ(found, 6u);  // three tiles of warps, two of the copying unit, one for any address
  }
}

}  // namespace
}  // namespace ingot::backend::cuda
