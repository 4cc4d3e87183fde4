// GEMMs that read A through a map, against plain loops; the numbers are small integers, so results must be equal.
#include <gtest/gtest.h>

#include <array>
#include "backend/cpu/compile/body_builder_test.h"
#include "backend/cpu/kernels/conv/conv_test.h"
#include "backend/cpu/kernels/kernel_test.h"
#include "backend/cpu/run/isa.h"
#include "base/error.h"
#include "kernels/matmul/run/matmul_args.h"

namespace ingot::kernels {
namespace {

using ir::DType;

// A convolution of x [N, H, W, C] (or [N, C, H, W] in memory) with a kernel [R, S, C, O]. Indices: n, places; r, s, c.
struct Convolution {
  int64_t n, h, w, c, o, r, s;
  int64_t stride = 1, pad = 0, dilation = 1;
  DType type = DType::f32;
  bool channels_first = false;
  bool batched = false;  // n is a batch index, else one of M's
  enum To { rows, gaps, lines } to = rows;  // the result: [N, H, W, O], the same with an unused element after each place, or [N, O, H, W]

  int64_t out(int64_t size, int64_t kernel) const { return (size + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1; }
};

GemmMap map_of(const Convolution& v) {
  // Indices n, i, j, r, s, c and axes N, H, W, C.
  return {4, static_cast<uint8_t>(v.batched ? 2 : 3), 3, {1, 0, 0, 0, 0, 0, /**/ 0, v.stride, 0, v.dilation, 0, 0, /**/ 0, 0, v.stride, 0, v.dilation, 0, /**/ 0, 0, 0, 0, 0, 1}};
}

int64_t elements_of_panels(ir::DType type, int64_t k, int64_t n) { return storage_bytes(panels_of(type), std::array{k, n}) / static_cast<int64_t>(ir::size_of(type)); }

// False: the kernel cannot compute it.
bool check_kernel(const Convolution& v, bool packed, Workers& workers, std::string_view kernel) {
  SCOPED_TRACE(fmt::format("{}: {}x{}x{}x{} by {}x{} to {}, stride {}, pad {}, dilation {}, {}, first {}, batched {}, to {}, packed {}", kernel, v.n, v.h, v.w, v.c, v.r, v.s, v.o,
                           v.stride, v.pad, v.dilation, ir::name_of(v.type), v.channels_first, v.batched, static_cast<int>(v.to), packed));
  const int64_t height = v.out(v.h, v.r), width = v.out(v.w, v.s), k = v.r * v.s * v.c, places = height * width;
  TestTensor x(v.type, {v.n, v.h, v.w, v.c}, v.channels_first ? std::vector<size_t>{0, 3, 1, 2} : std::vector<size_t>{});
  std::vector<int64_t> rows = v.batched ? std::vector<int64_t>{v.n, places} : std::vector<int64_t>{v.n * places};
  std::vector<int64_t> matrix = v.batched ? std::vector<int64_t>{v.n, k, v.o} : std::vector<int64_t>{k, v.o}, result = rows;
  result.push_back(v.o);
  const std::vector<size_t> order = v.to != Convolution::lines ? std::vector<size_t>{} : v.batched ? std::vector<size_t>{0, 2, 1} : std::vector<size_t>{1, 0};
  TestTensor weight(v.type, packed ? std::vector<int64_t>{k, v.o} : matrix, {}, !packed && v.batched ? std::vector<size_t>{0} : std::vector<size_t>{});
  TestTensor out(DType::f32, result, order, {}, v.to == Convolution::gaps ? 1 : 0);
  fill_with_integers(x, 1);
  fill_with_integers(weight, 2);
  TestTensor all(v.type, {packed ? elements_of_panels(v.type, k, v.o) : 0});
  if (packed) run_kernel("matmul_pack", {}, {&weight, &all}, {k, v.o}, workers);
  backend::cpu::BodyBuilder body(rows, {v.o});
  backend::Instruction accumulator{};
  accumulator.kind = backend::Instruction::Kind::accumulator;
  accumulator.dtype = DType::f32;
  body.store(DType::f32, body.push(accumulator));
  backend::cpu::Emitted code = backend::cpu::emit(body.body);
  std::vector<int64_t> sizes = {rows.back(), v.o, k, v.n, height, width, v.r, v.s, v.c, 0, -v.pad, -v.pad, 0};
  for (const ir::Dim& d : code.sizes) sizes.push_back(d.value());
  MatmulArgs args{packed, static_cast<uint8_t>(v.batched), code.code, false, map_of(v)};
  if (!run_kernel(kernel, serialise(args), {&x, packed ? &all : &weight, &out}, sizes, workers)) return false;

  int wrong = 0;
  for (int64_t n = 0; n < v.n; ++n) {
    for (int64_t p = 0; p < places; ++p) {
      for (int64_t o = 0; o < v.o; ++o) {
        double sum = 0;
        for (int64_t i = 0; i < k; ++i) {
          const int64_t c = i % v.c, s = i / v.c % v.s, r = i / v.c / v.s;
          const int64_t y = p / width * v.stride - v.pad + r * v.dilation, z = p % width * v.stride - v.pad + s * v.dilation;
          if (y < 0 || y >= v.h || z < 0 || z >= v.w) continue;
          sum += x.get({n, y, z, c}) * (packed || !v.batched ? weight.get({i, o}) : weight.get({n, i, o}));
        }
        wrong += out.get(v.batched ? std::vector<int64_t>{n, p, o} : std::vector<int64_t>{n * places + p, o}) != sum;
      }
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(out.untouched_outside());
  return true;
}

void check_family(const Convolution& v, bool packed, Workers& workers, ConvKernels& family) {
  family.each([&](std::string_view kernel) { return check_kernel(v, packed, workers, kernel); });
}

// By the GEMM, and by the kernels of convolutions, which take the same arguments.
void check(const Convolution& v, bool packed, Workers& workers) {
  ConvKernels family;
  if (v.type == DType::f32) check_family(v, packed, workers, family);
  if (v.type != DType::f32) check_kernel(v, packed, workers, "conv_rows");
  check_kernel(v, packed, workers, "matmul");
}

TEST(mapped_rows, convolutions) {
  auto pool = make_pool(2);
  const Convolution cases[] = {
      {1, 9, 11, 5, 7, 3, 3, 1, 1},
      {2, 9, 11, 5, 33, 3, 3, 2, 1},
      {2, 16, 13, 3, 40, 7, 7, 2, 3, 1, DType::f32, true},   // a first layer: rows of the kernel are neighbours, not channels
      {2, 8, 8, 64, 48, 3, 3, 1, 1},                         // more than one block of K
      {3, 8, 7, 6, 5, 3, 2, 1, 2, 2},                        // padding wider than the kernel at an edge
      {1, 4, 4, 6, 5, 3, 3, 1, 4, 3},                        // windows completely outside
      {2, 5, 6, 8, 9, 1, 1, 2, 0},
      {2, 9, 11, 5, 7, 3, 3, 1, 1, 1, DType::f16},
      {2, 9, 11, 5, 7, 3, 3, 1, 1, 1, DType::bf16, true},
      {3, 9, 11, 5, 7, 3, 3, 1, 1, 1, DType::bf16, false, true},
      {2, 9, 11, 32, 70, 3, 3, 2, 1, 2, DType::bf16},
      {1, 8, 8, 160, 40, 3, 3, 1, 1, 1, DType::bf16},        // more than one block of K
      {1, 9, 9, 3, 40, 7, 7, 2, 3, 1, DType::bf16},
      {2, 8, 8, 64, 48, 1, 1, 1, 0, 1, DType::bf16},         // read in place
      {3, 9, 11, 5, 7, 3, 3, 1, 1, 1, DType::f32, false, true},
      {3, 9, 11, 5, 7, 3, 3, 1, 1, 1, DType::f32, true, true},
      {1, 20, 20, 12, 20, 5, 5, 1, 2},
  };
  ConvKernels family;
  for (int64_t columns : {1, 3, 4}) {  // vectors along channels
    for (bool packed : {false, true}) {
      check_family({2, 9, 11, 32, columns, 9, 9, 1, 4}, packed, *pool, family);
      check_family({1, 17, 20, 64, columns, 5, 3, 2, 1, 2}, packed, inline_workers(), family);
      check_family({3, 8, 9, 16, columns, 1, 1, 1, 0}, packed, *pool, family);
    }
  }
  EXPECT_TRUE(family.ran("conv_dots") > 0 || backend::cpu::isa() == backend::cpu::Isa::portable);
  for (int64_t channels : {1, 2, 3, 4, 7, 8, 11, 16, 17, 61}) check({1, 6, 7, channels, 5, 3, 3, 1, 1}, true, *pool);  // runs of so many elements, also cut
  for (const Convolution& v : cases) {
    for (bool packed : {false, true}) {
      if (packed && v.batched) continue;
      check(v, packed, inline_workers());
      check(v, packed, *pool);
    }
  }
}

TEST(conv, tasks_are_panels_if_there_are_many_weights) {
  auto pool = make_pool(2);
  ConvKernels family;
  check_family({1, 3, 5, 128, 272, 3, 3, 1, 1}, true, *pool, family);
  check_family({1, 3, 5, 128, 272, 3, 3, 1, 1}, true, inline_workers(), family);
}

// Results along lines with gaps between them: phases of a transposed convolution, or a few adjacent columns.
TEST(conv, results_with_gaps) {
  auto pool = make_pool(2);
  ConvKernels family;
  for (const Convolution::To to : {Convolution::rows, Convolution::gaps}) {
    for (int64_t o : {1, 2, 3, 4}) {
      for (int64_t width : {5, 14, 16, 31, 70}) {
        check_family({1, 7, width, 16, o, 2, 2, 1, 1, 1, DType::f32, true, false, to}, true, inline_workers(), family);
        check_family({3, 7, width, 5, o, 3, 1, 1, 0, 1, DType::f32, true, true, to}, false, *pool, family);
        check_family({1, 8, width, 3, o, 1, 1, 1, 0, 1, DType::f32, true, false, to}, true, *pool, family);  // all lines are one
        check_family({1, 9, width, 40, o, 3, 4, 2, 2, 2, DType::f32, true, false, to}, true, inline_workers(), family);
      }
    }
  }
}

// Lines that fill vectors along columns better than those along lines.
TEST(conv, across_lines) {
  auto pool = make_pool(2);
  ConvKernels family;
  for (int64_t o : {20, 32, 40, 64}) {
    for (int64_t width : {12, 14, 20, 28, 42, 70}) {
      check_family({1, 9, width, 3, o, 3, 3, 1, 1, 1, DType::f32, true, false, Convolution::lines}, true, inline_workers(), family);
      check_family({1, 9, 2 * width, 17, o, 5, 7, 2, 3, 1, DType::f32, true, false, Convolution::lines}, true, *pool, family);
      check_family({1, 11, 3 * width, 6, o, 4, 2, 3, 5, 2, DType::f32, true, false, Convolution::lines}, true, *pool, family);
    }
  }
  check_family({1, 40, 28, 64, 32, 3, 3, 1, 1, 1, DType::f32, true, false, Convolution::lines}, true, inline_workers(), family);  // several blocks
}

TEST(mapped_rows, nothing_to_read) {
  check({0, 4, 4, 3, 5, 3, 3, 1, 1}, false, inline_workers());
  check({2, 4, 4, 0, 5, 3, 3, 1, 1}, false, inline_workers());
}

TEST(mapped_rows, maps_that_do_not_fit_are_refused) {
  TestTensor x(DType::f32, {1, 4, 4, 2}), b(DType::f32, {18, 3}), out(DType::f32, {16, 3}), ints(DType::i32, {1, 4, 4, 2}), int_matrix(DType::i32, {18, 3});
  backend::cpu::BodyBuilder body({16}, {3});
  backend::Instruction accumulator{};
  accumulator.kind = backend::Instruction::Kind::accumulator;
  accumulator.dtype = DType::f32;
  body.store(DType::f32, body.push(accumulator));
  const std::vector<std::byte> code = backend::cpu::emit(body.body).code;
  const GemmMap good = map_of({1, 4, 4, 2, 3, 3, 3, 1, 1});
  auto code_of = [&](GemmMap map, std::vector<int64_t> sizes, TestTensor* a) {
    try {
      run_kernel("matmul", serialise(MatmulArgs{false, 0, code, false, std::move(map)}), {a, a == &ints ? &int_matrix : &b, &out}, sizes, inline_workers());
    } catch (const Error& e) {
      return e.code;
    }
    return Code::ok;
  };
  const std::vector<int64_t> sizes = {16, 3, 18, 1, 4, 4, 3, 3, 2, 0, -1, -1, 0};
  EXPECT_EQ(code_of(good, sizes, &x), Code::ok);
  EXPECT_EQ(code_of(good, sizes, &ints), Code::format);
  EXPECT_EQ(code_of(good, sizes, &b), Code::format);  // of another rank
  for (size_t i = 3; i < 9; ++i) {
    std::vector<int64_t> other = sizes;
    other[i] += 1;
    EXPECT_EQ(code_of(good, other, &x), Code::format) << i;
    other[i] = -1;
    EXPECT_EQ(code_of(good, other, &x), Code::format) << i;
    other[i] = INT64_MAX;
    EXPECT_EQ(code_of(good, other, &x), Code::format) << i;
  }
  std::vector<int64_t> far = sizes;
  far.back() = INT64_MIN;
  EXPECT_EQ(code_of(good, far, &x), Code::format);
  EXPECT_EQ(code_of(good, {16, 3, 18, 1, 4, 4}, &x), Code::format);
  for (int64_t step : {int64_t{-1}, int64_t{INT32_MAX} + 1}) {
    GemmMap other = good;
    other.steps[7] = step;
    EXPECT_EQ(code_of(other, sizes, &x), Code::format) << step;
  }
  std::vector<std::byte> bytes = serialise(MatmulArgs{true, 0, {}, true, good});
  EXPECT_TRUE(parse_matmul(bytes).in_order && parse_matmul(bytes).packed && parse_matmul(bytes).map->steps == good.steps);
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_THROW(parse_matmul(std::span(bytes).first(n)), Error);
}

}  // namespace
}  // namespace ingot::kernels
