// Hopper's tiles and patches keep sums and what follows in registers: what is in local memory instead is read and written for each tile. Needs NVRTC, and no GPU.
#include <gtest/gtest.h>

#include <cstdlib>

#include "backend/cuda/available_test.h"
#include "backend/cuda/compile/local_bytes_test.h"
#include "backend/cuda/compile/matrix_text.h"
#include "backend/cuda/compile/prelude.h"
#include "backend/cuda/kernels/gemm/gemm_step.h"
#include "backend/cuda/kernels/gpu_step_test.h"

namespace ingot::backend::cuda {
namespace {

using ir::DType;
using ir::Op;

// relu(acc + bias[n] + residual[m, n]) of 8 images of 28 x 28 under windows of 3 x 3, as in residual networks, or of a volume of 8 x 28 x 28 under 3 x 3 x 3.
Taken residual_convolution(DType type, int64_t channels, bool volume) {
  constexpr int64_t rows = 8 * 28 * 28;
  const int64_t k = (volume ? 27 : 9) * channels;
  Gemm gemm;
  gemm.type = type;
  gemm.a = {{8, 28, 28, channels}, {28 * 28 * channels, 28 * channels, channels, 1}};
  gemm.b = {{{k, channels}, {1, k}}};
  gemm.map = windows_of(8, 28, 28, channels, 3, 1, 1);
  if (volume) {
    gemm.map->dims = {8, 28, 28, 3, 3, 3, channels};
    gemm.map->axes = {{-1, {{0, 1}, {3, 1}}}, {-1, {{1, 1}, {4, 1}}}, {-1, {{2, 1}, {5, 1}}}, {0, {{6, 1}}}};
  }
  gemm.m_rank = 3;
  gemm.constant = true;
  FusedBody body;
  body.outer = {rows};
  body.row = {channels};
  body.operands = {type, type, type};
  body.code.resize(6);
  auto set = [&](size_t at, Instruction::Kind kind, Op op, std::vector<Reg> in, uint32_t operand) {
    Instruction& i = body.code[at];
    i.kind = kind;
    i.dtype = DType::f32;
    i.op = op;
    i.in = std::move(in);
    i.operand = operand;
  };
  using Kind = Instruction::Kind;
  set(0, Kind::accumulator, Op::add, {}, 0);
  set(1, Kind::load, Op::add, {}, 0);
  set(2, Kind::map, Op::add, {0, 1}, 0);
  set(3, Kind::load, Op::add, {}, 1);
  set(4, Kind::map, Op::add, {2, 3}, 0);
  set(5, Kind::map, Op::relu, {4}, 0);
  body.stores = {{2, 5}};
  const StridedLayout whole{{rows, channels}, {channels, 1}};
  return own_gemm(gemm, body, {{{1, channels}, {0, 1}}, whole, whole}, true);
}

// The result is the sum itself.
FusedBody sum_alone(int64_t rows, int64_t columns) {
  FusedBody body;
  body.outer = {rows};
  body.row = {columns};
  body.operands = {DType::f16};
  body.code.resize(1);
  body.code[0].kind = Instruction::Kind::accumulator;
  body.code[0].dtype = DType::f32;
  body.stores = {{0, 0}};
  return body;
}

TEST(cuda_gemm, large_tiles_spill_no_registers) {
  if (std::getenv("INGOT_TEST_ALL") == nullptr) GTEST_SKIP() << "INGOT_TEST_ALL=1 compiles all shapes";
  if (std::string why = nvrtc_missing(); !why.empty()) GTEST_SKIP() << why;
  std::vector<CompileJob> jobs;
  for (DType type : {DType::f16, DType::f32}) {
    const Taken own = residual_convolution(type, 128, false);
    ASSERT_EQ(own.obstacle, std::nullopt);
    jobs.push_back({std::string(prelude()) + matrix_texts() + text_with_libraries(own.step.code[0]), 90, CompileJob::Form::cubin, true});
  }
  const auto code = compile(jobs).code;
  constexpr size_t expected[] = {7, 5};  // floats have no tiles of 192 and 256 columns
  for (size_t type = 0; type < std::size(expected); ++type) {
    size_t tiles = 0;
    for (const auto& [kernel, bytes] : local_bytes(code[type])) {
      if (kernel.find("_t") == std::string::npos) continue;
      ++tiles;
      EXPECT_EQ(bytes, 0u) << kernel;
    }
    EXPECT_EQ(tiles, expected[type]);
  }
}

TEST(cuda_gemm, im2col_3d_spills_no_registers) {
  if (std::getenv("INGOT_TEST_ALL") == nullptr) GTEST_SKIP() << "INGOT_TEST_ALL=1 compiles all shapes";
  if (std::string why = nvrtc_missing(); !why.empty()) GTEST_SKIP() << why;
  std::vector<CompileJob> jobs;
  for (int64_t channels : {16, 32}) {
    const Taken own = residual_convolution(DType::f16, channels, true);
    ASSERT_EQ(own.obstacle, std::nullopt);
    jobs.push_back({std::string(prelude()) + matrix_texts() + text_with_libraries(own.step.code[0]), 90, CompileJob::Form::cubin, true});
  }
  for (const std::vector<std::byte>& code : compile(jobs).code) {
    size_t patches = 0;
    for (const auto& [kernel, bytes] : local_bytes(code)) {
      if (!kernel.ends_with("_volume")) continue;
      ++patches;
      EXPECT_EQ(bytes, 0u) << kernel;
    }
    EXPECT_EQ(patches, 1u);
  }
}

// Rows of which only reading B counts hold what is loaded next.
TEST(cuda_gemm, skinny_spills_no_registers) {
  if (std::getenv("INGOT_TEST_ALL") == nullptr) GTEST_SKIP() << "INGOT_TEST_ALL=1 compiles all shapes";
  if (std::string why = nvrtc_missing(); !why.empty()) GTEST_SKIP() << why;
  for (int64_t rows : {1, 8}) {
    Gemm gemm;
    gemm.type = DType::f16;
    gemm.a = {{rows, 4096}, {4096, 1}};
    gemm.b = {{{4096, 512}, {1, 4096}}};
    gemm.m_rank = 1;
    gemm.constant = true;
    const Taken own = own_gemm(gemm, sum_alone(rows, 512), {{{rows, 512}, {512, 1}}}, true);
    ASSERT_EQ(own.obstacle, std::nullopt);
    const std::vector<CompileJob> jobs{{std::string(prelude()) + matrix_texts() + text_with_libraries(own.step.code[0]), 90, CompileJob::Form::cubin, true}};
    const auto code = compile(jobs).code;
    size_t found = 0;
    for (const auto& [kernel, bytes] : local_bytes(code[0])) {
      if (!kernel.ends_with(rows == 1 ? "_row" : "_rows") || kernel.find("_any_") != std::string::npos) continue;
      ++found;
      EXPECT_EQ(bytes, 0u) << kernel;
    }
    EXPECT_EQ(found, 1u);
  }
}

}  // namespace
}  // namespace ingot::backend::cuda
