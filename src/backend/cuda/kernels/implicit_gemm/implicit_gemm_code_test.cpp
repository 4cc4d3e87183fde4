// The code of a step has the kernels that its launches use, and no more where its sizes are known. Needs no GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "backend/cuda/kernels/gpu_step_test.h"
#include "backend/cuda/kernels/implicit_gemm/implicit_gemm_code.h"
#include "backend/cuda/kernels/implicit_gemm/run/implicit_gemm_args.h"
#include "backend/cuda/kernels/implicit_gemm/run/implicit_gemm_launches.h"

namespace ingot::backend::cuda {
namespace {

using ir::Dim;
using ir::DType;
using Forms = CodeUnit::Forms;

// relu(A B + bias), B along K.
struct Product {
  int64_t m, n, k;
  DType type;
  Gemm gemm{};
  FusedBody body;
  std::vector<StridedLayout> layouts;

  Product(Dim rows, int64_t n, int64_t k, DType type) : m(rows.constant().value_or(0)), n(n), k(k), type(type) {
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
  EmittedStep whole(bool large = true) const { return take(implicit_gemm(gemm, body, layouts, large)).step; }
  EmittedStep split(bool timed, bool large = true) const { return split_code(whole(large), gemm, layouts, timed); }

  kernels::CudaLaunches launches(const EmittedStep& step, int multiprocessors, bool tiles, const std::map<std::string, std::string, std::less<>>* timed = nullptr) const {
    const int64_t dims[3][2] = {{m, k}, {k, n}, {m, n}}, strides[3][2] = {{k, 1}, {1, k}, {n, 1}};
    std::vector<TensorRef> operands;
    for (int i = 0; i < 3; ++i) operands.push_back({nullptr, type, 2, dims[i], strides[i]});
    std::vector<int64_t> sizes;
    for (const Dim& d : step.sizes) sizes.push_back(d.value());
    const auto constants = kernels::load_implicit_gemm_cuda(step.constants, operands.size(), sizes.size());
    Call call;
    call.operands = operands;
    call.sizes = sizes;
    call.constants = constants.get();
    return kernels::implicit_gemm_cuda_launches(call, {multiprocessors, tiles, timed});
  }
};

std::set<std::string> kernels_of(const EmittedStep& step, Forms without) {
  std::set<std::string> out;
  for (const CodeUnit& u : step.code) {
    if (u.forms != without) out.insert(u.kernels.begin(), u.kernels.end());
  }
  return out;
}

void expect_code_for(const EmittedStep& step, const kernels::CudaLaunches& launches, bool ptx) {
  const std::set<std::string> there = kernels_of(step, ptx ? Forms::machine_code : Forms::ptx);
  for (const auto* list : {&launches.list, &launches.any}) {
    for (const kernels::CudaLaunch& l : *list) EXPECT_TRUE(there.contains(l.kernel)) << l.kernel << (ptx ? " as PTX" : "");
  }
}

TEST(implicit_gemm_code, has_every_kernel_that_known_sizes_use_on_any_gpu) {
  for (DType type : {DType::f16, DType::bf16, DType::f32}) {
    for (int64_t m : {1, 7, 100, 512, 5000, 100000}) {
      for (int64_t n : {8, 96, 320, 2048}) {
        for (int64_t k : {8, 12, 100, 1024, 8192}) {
          SCOPED_TRACE(fmt::format("{} {} x {} x {}", ir::name_of(type), m, n, k));
          const Product p(m, n, k, type);
          const Taken whole = take(implicit_gemm(p.gemm, p.body, p.layouts, true));
          if (whole.obstacle) continue;
          for (bool timed : {false, true}) {
            const EmittedStep step = p.split(timed);
            for (int multiprocessors : {1, 16, 66, 78, 114, 132, 148, 1000}) {
              const kernels::CudaLaunches here = p.launches(step, multiprocessors, true);
              expect_code_for(step, here, false);
              expect_code_for(step, p.launches(step, multiprocessors, false), true);
              // Whatever can be timed has its kernel too.
              for (const std::string& choice : here.choices) {
                const std::map<std::string, std::string, std::less<>> wanted = {{here.problem, choice}};
                expect_code_for(step, p.launches(step, multiprocessors, true, &wanted), false);
              }
            }
          }
        }
      }
    }
  }
}

// Code for sm_80 also runs on Hopper, as PTX. It has no large tiles, so launches there must not use them.
TEST(implicit_gemm_code, without_large_tiles_has_every_kernel_on_any_gpu) {
  for (int64_t m : {1, 100, 5000}) {
    const Product p(m, 320, 1024, DType::f16);
    const EmittedStep step = p.split(false, false);
    for (bool hopper : {false, true}) {
      for (int multiprocessors : {1, 58, 108, 132, 1000}) {
        for (bool ptx : {false, true}) expect_code_for(step, p.launches(step, multiprocessors, hopper), ptx);
      }
    }
  }
}

TEST(implicit_gemm_code, of_known_sizes_is_a_part_and_of_open_ones_is_whole) {
  const Product known(512, 1024, 1024, DType::f16);
  const EmittedStep whole = known.whole(), step = known.split(false);
  const std::set<std::string> all(whole.code[0].kernels.begin(), whole.code[0].kernels.end());
  EXPECT_LE(2 * kernels_of(step, Forms::ptx).size(), all.size());
  EXPECT_GT(kernels_of(known.split(true), Forms::ptx).size(), kernels_of(step, Forms::ptx).size());
  // The choice of before is the choice now.
  EXPECT_EQ(known.launches(step, 132, true).list[0].kernel, known.launches(whole, 132, true).list[0].kernel);

  const Product open(Dim::symbol(0), 1024, 1024, DType::f16);
  const EmittedStep parts = open.split(false);
  EXPECT_EQ(kernels_of(parts, Forms::ptx), kernels_of(open.whole(), Forms::ptx));
  for (const CodeUnit& u : parts.code) {
    EXPECT_EQ(u.forms == Forms::machine_code, u.name.substr(u.name.rfind('_') + 1)[0] == 't') << u.name;
    for (const std::string& kernel : u.kernels) EXPECT_NE(u.text.find(" " + kernel + "("), std::string::npos) << kernel;
  }
}

}  // namespace
}  // namespace ingot::backend::cuda
