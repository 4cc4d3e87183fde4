// GEMMs against plain loops. The numbers are small integers, so that every sum is exact in any order and results must be equal.
#include "kernels/matmul/run/matmul_args.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <map>
#include <set>
#include <thread>

#include "backend/cpu/compile/body_builder_test.h"
#include "backend/cpu/kernels/kernel_test.h"
#include "backend/cpu/kernels/matmul/run/cost.h"
#include "backend/cpu/run/isa.h"
#include "base/error.h"

namespace ingot::kernels {
namespace {

using ir::DType;
using ir::Op;

enum class End { plain, bias, relu, bias_relu, residual, bias_gelu_residual, scaled_by_column, relu_affine };

struct Case {
  int64_t m, n, k;
  std::vector<int64_t> batch = {};
  DType type = DType::f32;
  DType out = DType::f32;
  bool a_transposed = false, b_transposed = false, out_transposed = false;
  bool packed = false, f32_panels = false;  // packed in B's type or in f32
  int64_t pad = 0;                     // after the rows of A, B and the result
  std::vector<size_t> a_broadcast = {}, b_broadcast = {};
  End end = End::plain;
  DType with = DType::f32;             // bias and residual
};

std::string text(const Case& c) {
  std::string s = fmt::format("{} x {} x {}, batch", c.m, c.n, c.k);
  for (int64_t b : c.batch) s += " " + std::to_string(b);
  return s + fmt::format(", {} -> {}, transposed {}{}{}, packed {}{}, pad {}, end {}", ir::name_of(c.type), ir::name_of(c.out), c.a_transposed, c.b_transposed, c.out_transposed,
                         c.packed, c.f32_panels, c.pad, static_cast<int>(c.end));
}

int64_t packed_bytes(DType type, int64_t k, int64_t n) { return storage_bytes(panels_of(type), std::array{k, n}); }
TestTensor packed_room(DType type, int64_t k, int64_t n) { return TestTensor(type, {packed_bytes(type, k, n) / static_cast<int64_t>(ir::size_of(type))}); }

// Integers of -3 .. 3 without a pattern that survives a transposition.
std::vector<size_t> order(size_t rank, bool transposed) {
  std::vector<size_t> o(rank);
  std::iota(o.begin(), o.end(), size_t{0});
  if (transposed) std::swap(o[rank - 1], o[rank - 2]);
  return o;
}

std::vector<int64_t> matrices(std::vector<int64_t> batch, int64_t rows, int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

// By each kernel of the family that can compute it; by matmul alone with choices. Counts those that ran in `ran`.
std::map<std::string_view, int> ran;
void check(const Case& c, Workers& workers, Choosing* choosing = nullptr) {
  SCOPED_TRACE(text(c));
  const size_t rank = c.batch.size() + 2;
  TestTensor a(c.type, matrices(c.batch, c.m, c.k), order(rank, c.a_transposed), c.a_broadcast, c.pad);
  TestTensor b = c.packed ? TestTensor(c.type, {c.k, c.n}, order(2, c.b_transposed), {}, c.pad)
                          : TestTensor(c.type, matrices(c.batch, c.k, c.n), order(rank, c.b_transposed), c.b_broadcast, c.pad);
  TestTensor out(c.out, matrices(c.batch, c.m, c.n), order(rank, c.out_transposed), {}, c.pad);
  std::vector<size_t> all_but_last(rank - 1);
  std::iota(all_but_last.begin(), all_but_last.end(), size_t{0});
  TestTensor bias(c.with, matrices(c.batch, c.m, c.n), {}, all_but_last), residual(c.with, matrices(c.batch, c.m, c.n));
  std::vector<size_t> all = all_but_last;
  all.push_back(rank - 1);
  TestTensor factor(c.with, matrices(c.batch, c.m, c.n), {}, all), shift(c.with, matrices(c.batch, c.m, c.n), {}, all);  // of one element
  fill_with_integers(a, 1);
  fill_with_integers(b, 2);
  fill_with_integers(bias, 3);
  fill_with_integers(residual, 4);
  fill_with_integers(factor, 5);
  fill_with_integers(shift, 6);

  std::vector<int64_t> outer = c.batch;
  outer.push_back(c.m);
  backend::cpu::BodyBuilder body(outer, {c.n});
  std::vector<TestTensor*> operands = {&a, &b};
  DType sum = ir::is_float(c.type) ? ir::compute_type(c.type) : c.type;
  backend::Instruction accumulator{};
  accumulator.kind = backend::Instruction::Kind::accumulator;
  accumulator.dtype = sum;
  backend::Reg value = body.push(accumulator);
  auto load = [&](TestTensor& t) {
    operands.push_back(&t);
    return body.load(t.dtype);
  };
  switch (c.end) {
    case End::plain: break;
    case End::bias: value = body.map(Op::add, DType::f32, {value, load(bias)}); break;
    case End::relu: value = body.map(Op::relu, DType::f32, {value}); break;
    case End::bias_relu: value = body.map(Op::relu, DType::f32, {body.map(Op::add, DType::f32, {value, load(bias)})}); break;
    case End::residual: value = body.map(Op::add, DType::f32, {value, load(residual)}); break;
    case End::bias_gelu_residual: {
      backend::Reg x = body.map(Op::gelu, DType::f32, {body.map(Op::add, DType::f32, {value, load(bias)})});
      value = body.map(Op::add, DType::f32, {x, load(residual)});
      break;
    }
    case End::relu_affine: value = body.map(Op::add, DType::f32, {body.map(Op::mul, DType::f32, {body.map(Op::relu, DType::f32, {value}), load(factor)}), load(shift)}); break;
    case End::scaled_by_column: value = body.map(Op::mul, DType::f32, {value, body.map(Op::cast, DType::f32, {body.index(static_cast<uint32_t>(rank - 1))})}); break;
  }
  body.store(c.out, value);
  operands.push_back(&out);
  backend::cpu::Emitted code = backend::cpu::emit(body.body);
  std::vector<int64_t> sizes = {c.m, c.n, c.k};
  for (const ir::Dim& d : code.sizes) sizes.push_back(d.value());

  TestTensor packed = packed_room(c.packed && !c.f32_panels ? c.type : DType::f32, c.k, c.n);
  if (c.packed) {
    run_kernel("matmul_pack", {}, {&b, &packed}, {c.k, c.n}, workers);
    operands[1] = &packed;
  }
  const std::vector<double> rows = a.values(), columns = b.values();
  auto verify = [&] {
    int64_t element = 0;
    int wrong = 0;
    out.each([&](const std::vector<int64_t>& at) {
      const int64_t row = element / c.n, matrix = c.packed ? 0 : row / c.m;
      ++element;
      double x = 0;
      for (int64_t k = 0; k < c.k; ++k) x += rows[static_cast<size_t>(row * c.k + k)] * columns[static_cast<size_t>((matrix * c.k + k) * c.n + at.back())];
      double slack = 0;
      switch (c.end) {
        case End::plain: break;
        case End::bias: x += bias.get(at); break;
        case End::relu: x = std::max(x, 0.0); break;
        case End::bias_relu: x = std::max(x + bias.get(at), 0.0); break;
        case End::residual: x += residual.get(at); break;
        case End::bias_gelu_residual:
          x += bias.get(at);
          x = 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))) + residual.get(at);
          slack = 4 * std::ldexp(std::max(std::abs(x), 1.0), -23);  // the gelu of f32 and one sum
          break;
        case End::relu_affine: x = std::max(x, 0.0) * factor.get(at) + shift.get(at); break;
        case End::scaled_by_column: x *= static_cast<double>(at.back()); break;
      }
      if (c.out == DType::bf16 || c.out == DType::f16) {
        if (slack != 0) slack += std::ldexp(std::abs(x), c.out == DType::bf16 ? -8 : -11);  // a tie may be rounded the other way
        x = ir::rounded_to(c.out, x);
      }
      if (c.type == DType::i8) x = static_cast<int8_t>(static_cast<int64_t>(x));  // wraps
      if (!(std::abs(out.get(at) - x) <= slack) && ++wrong < 4) ADD_FAILURE() << "at " << fmt::format("{}, {}", at[rank - 2], at[rank - 1]) << ": " << out.get(at) << ", not " << x;
    });
    EXPECT_EQ(wrong, 0);
    EXPECT_TRUE(out.untouched_outside());
  };
  for (std::string_view kernel : kernels_of("matmul")) {
    if (choosing != nullptr && kernel != "matmul") continue;
    SCOPED_TRACE(kernel);
    out = TestTensor(c.out, matrices(c.batch, c.m, c.n), order(rank, c.out_transposed), {}, c.pad);
    const bool can = run_kernel(kernel, serialise(MatmulArgs{c.packed, static_cast<uint8_t>(c.batch.size()), code.code}), operands, sizes, workers, choosing);
    EXPECT_TRUE(can || kernel != "matmul");
    ran[kernel] += can;
    if (can) verify();
  }
}

TEST(matmul, every_small_size) {
  for (int64_t m : {0, 1, 2, 5, 6, 7, 13, 16}) {
    for (int64_t n : {0, 1, 7, 8, 15, 16, 17, 33, 48}) {
      for (int64_t k : {0, 1, 2, 5, 17}) {
        for (bool packed : {false, true}) check({.m = m, .n = n, .k = k, .packed = packed, .end = End::bias}, inline_workers());
      }
    }
  }
}

TEST(matmul, every_small_size_of_half_panels) {
  for (DType type : {DType::bf16, DType::f16}) {
    for (int64_t m : {1, 2, 3, 4, 5, 14, 15, 20}) {
      for (int64_t n : {1, 8, 15, 17, 33, 64}) {
        for (int64_t k : {0, 1, 2, 3, 7, 8, 9, 31, 64}) check({.m = m, .n = n, .k = k, .type = type, .packed = true, .end = End::bias}, inline_workers());
      }
    }
    check({.m = 0, .n = 5, .k = 5, .type = type, .packed = true}, inline_workers());
    check({.m = 5, .n = 0, .k = 5, .type = type, .packed = true}, inline_workers());
  }
}

TEST(matmul, layouts_and_endings_of_half_panels) {
  for (DType type : {DType::bf16, DType::f16}) {
    for (End end : {End::plain, End::bias, End::relu, End::bias_relu, End::residual, End::bias_gelu_residual, End::scaled_by_column, End::relu_affine}) {
      for (int bits = 0; bits < 16; ++bits) {
        for (auto [m, n, k] : {std::array<int64_t, 3>{1, 96, 77}, {2, 50, 64}, {13, 64, 21}, {13, 50, 130}}) {
          check({.m = m,
                 .n = n,
                 .k = k,
                 .type = type,
                 .out = end == End::plain && k < 100 ? type : DType::f32,
                 .a_transposed = (bits & 1) != 0,
                 .b_transposed = (bits & 2) != 0,
                 .out_transposed = (bits & 4) != 0,
                 .packed = true,
                 .pad = (bits & 8) != 0 ? 3 : 0,
                 .end = end},
                inline_workers());
        }
      }
    }
    for (auto [m, n, k] : {std::array<int64_t, 3>{127, 50, 1030}, {130, 530, 33}, {20, 40, 2100}, {3, 100, 2053}, {1, 1030, 515}}) {
      for (End end : {End::bias, End::scaled_by_column}) check({.m = m, .n = n, .k = k, .type = type, .packed = true, .end = end}, three());
    }
    check({.m = 9, .n = 40, .k = 21, .batch = {2, 3}, .type = type, .packed = true}, three());
    check({.m = 9, .n = 40, .k = 21, .type = type, .packed = true, .f32_panels = true}, inline_workers());
  }
}

// Tiles that store a half type: from one block of K and from several, also next to columns that do not fill a tile.
TEST(matmul, endings_of_half_types) {
  for (DType out : {DType::bf16, DType::f16}) {
    for (DType type : {out, DType::f32}) {
      for (DType with : {DType::f32, out}) {
        for (End end : {End::plain, End::bias, End::relu, End::bias_relu, End::residual, End::bias_gelu_residual, End::scaled_by_column, End::relu_affine}) {
          for (auto [m, n, k] : {std::array<int64_t, 3>{1, 64, 20}, {35, 96, 37}, {35, 96, 1100}, {40, 50, 40}}) {
            check({.m = m, .n = n, .k = k, .type = type, .out = out, .packed = true, .pad = m == 35 ? 5 : 0, .end = end, .with = with}, k > 1000 ? three() : inline_workers());
          }
        }
      }
    }
    check({.m = 20, .n = 64, .k = 20, .batch = {3}, .type = out, .out = out, .end = End::residual, .with = out}, three());
  }
}

// f32 numbers with few low bits, rounded by a tile as everywhere else.
TEST(matmul, tiles_round_as_numbers_do) {
  for (DType out : {DType::bf16, DType::f16}) {
    for (uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0x1000u, 0x1001u, 0xffffu}) {
      const int64_t n = 1 << 16;
      TestTensor a(DType::f32, {1, 1}), b(DType::f32, {1, n}), c(out, {1, n}), packed = packed_room(DType::f32, 1, n);
      a.put({0, 0}, 1);
      auto* bits = reinterpret_cast<uint32_t*>(b.ref().data);
      for (int64_t i = 0; i < n; ++i) bits[i] = static_cast<uint32_t>(i) << 16 | low;
      backend::cpu::BodyBuilder body({1}, {n});
      backend::Instruction accumulator{};
      accumulator.kind = backend::Instruction::Kind::accumulator;
      accumulator.dtype = DType::f32;
      body.store(out, body.push(accumulator));
      run_kernel("matmul_pack", {}, {&b, &packed}, {1, n}, inline_workers());
      run_kernel("matmul", serialise(MatmulArgs{true, 0, backend::cpu::emit(body.body).code}), {&a, &packed, &c}, {1, n, 1}, inline_workers());
      int wrong = 0;
      for (int64_t i = 0; i < n; ++i) {
        const double x = ir::rounded_to(out, b.get({0, i})), y = c.get({0, i});
        wrong += std::isnan(x) ? !std::isnan(y) : y != x;
      }
      EXPECT_EQ(wrong, 0) << ir::name_of(out) << ", low bits " << low;
    }
  }
}

// Around the tiles of matrix registers: 16 and 32 rows, 32 numbers along K, 32 columns.
TEST(matmul, every_size_up_to_70_of_bf16_panels) {
  for (int64_t i = 1; i <= 70; ++i) {
    for (auto [m, n, k] : {std::array<int64_t, 3>{i, 33, 70}, {i, 64, 31}, {33, i, 45}, {2, i, 64}, {17, 40, i}, {33, 32, i}, {1, 64, i}, {i, i, i}}) {
      for (DType out : {DType::f32, DType::bf16}) {
        check({.m = m, .n = n, .k = k, .type = DType::bf16, .out = out, .packed = true, .end = out == DType::f32 ? End::bias_relu : End::residual}, inline_workers());
      }
    }
  }
}

// Blocks of rows and of K, split among workers.
TEST(matmul, blocks_of_bf16_panels) {
  for (auto [m, n, k] : {std::array<int64_t, 3>{400, 96, 70}, {129, 640, 33}, {390, 33, 1030}, {33, 64, 4100}, {40, 96, 2100}}) {
    for (End end : {End::plain, End::residual, End::bias_gelu_residual, End::scaled_by_column, End::relu_affine}) {
      for (bool transposed : {false, true}) check({.m = m, .n = n, .k = k, .type = DType::bf16, .a_transposed = transposed, .packed = true, .end = end}, three());
    }
  }
}

#if defined(__x86_64__)
// A context switch of a thread with configured matrix registers saves 8 KB more.
TEST(matmul, threads_release_matrix_registers) {
  if (backend::cpu::isa() < backend::cpu::Isa::amx_bf16) GTEST_SKIP() << "no matrix registers";
  check({.m = 200, .n = 320, .k = 600, .type = DType::bf16, .packed = true}, three());
  check({.m = 3, .n = 320, .k = 600, .type = DType::bf16, .packed = true}, inline_workers());
  int configured = 0, seen[3] = {};
  std::atomic<int> arrived = 0;
  three().run(3, [&](int64_t task, int) {
    arrived.fetch_add(1);
    while (arrived.load() < 3) std::this_thread::yield();  // each thread has one
    alignas(64) uint8_t state[64] = {1};
    asm volatile("sttilecfg %0" : "=m"(state));
    for (uint8_t byte : state) seen[task] += byte;
  });
  for (int s : seen) configured += s != 0;
  EXPECT_EQ(configured, 0);
}
#endif

// Every number of a half type, times one.
TEST(matmul, half_panels_hold_every_number) {
  const int64_t n = 1 << 16;
  for (DType type : {DType::bf16, DType::f16}) {
    for (DType left : {DType::f32, type}) {
      TestTensor a(left, {1, 1}), b(type, {1, n}), out(DType::f32, {1, n}), packed = packed_room(type, 1, n);
      a.put({0, 0}, 1);
      auto* bits = reinterpret_cast<uint16_t*>(b.ref().data);
      for (int64_t i = 0; i < n; ++i) bits[i] = static_cast<uint16_t>(i);
      backend::cpu::BodyBuilder body({1}, {n});
      backend::Instruction accumulator{};
      accumulator.kind = backend::Instruction::Kind::accumulator;
      accumulator.dtype = DType::f32;
      body.store(DType::f32, body.push(accumulator));
      run_kernel("matmul_pack", {}, {&b, &packed}, {1, n}, inline_workers());
      for (std::string_view kernel : kernels_of("matmul")) {
        if (!run_kernel(kernel, serialise(MatmulArgs{true, 0, backend::cpu::emit(body.body).code}), {&a, &packed, &out}, {1, n, 1}, inline_workers())) continue;
        const bool flushes = kernel != "matmul";  // dot products of bf16 take subnormal numbers as zero
        int wrong = 0;
        for (int64_t i = 0; i < n; ++i) {
          const double x = b.get({0, i}), y = out.get({0, i});
          const bool zero = flushes && std::abs(x) < std::ldexp(1.0, -126);
          wrong += std::isnan(x) ? !std::isnan(y) : y != (zero ? 0 : x);
        }
        EXPECT_EQ(wrong, 0) << kernel << ": " << ir::name_of(type) << " times " << ir::name_of(left);
      }
    }
  }
}

// In order, a row has the same bits whatever the other rows are.
TEST(matmul, in_order_a_row_has_the_same_bits_among_any_others) {
  const int64_t max_m = 150, n = 80;
  for (auto [left, right] :
       {std::pair{DType::f32, DType::f32}, {DType::bf16, DType::bf16}, {DType::f16, DType::f16}, {DType::f32, DType::bf16}, {DType::bf16, DType::i8}, {DType::f32, DType::i8}}) {
    for (int64_t k : {77, 600, 2500}) {
      TestTensor a(left, {max_m, k}), b(right, {k, n}), packed = packed_room(right, k, n), all(DType::f32, {max_m, n});
      uint32_t h = 1;
      for (TestTensor* t : {&a, &b}) {
        const double size = t->dtype == DType::i8 ? 127 : 1;
        t->each([&](const auto& at) { t->put(at, size * (static_cast<double>((h = h * 1664525u + 1013904223u) >> 8) / (1 << 23) - 1)); });
      }
      run_kernel("matmul_pack", {}, {&b, &packed}, {k, n}, inline_workers());
      for (bool ready : {true, false}) {
        if (!ready && right == DType::i8) continue;
        for (std::string_view kernel : kernels_of("matmul")) {
          TestTensor whole(DType::f32, {max_m, n});
          for (int64_t m : {max_m, int64_t{33}, int64_t{20}, int64_t{4}, int64_t{3}, int64_t{2}, int64_t{1}}) {
            TestTensor some(left, {m, k}), out(DType::f32, {m, n});
            some.each([&](const auto& at) { some.put(at, a.get(at)); });
            backend::cpu::BodyBuilder body({m}, {n});
            backend::Instruction accumulator{};
            accumulator.kind = backend::Instruction::Kind::accumulator;
            accumulator.dtype = DType::f32;
            body.store(DType::f32, body.push(accumulator));
            if (!run_kernel(kernel, serialise(MatmulArgs{ready, 0, backend::cpu::emit(body.body).code, true}), {&some, ready ? &packed : &b, m == max_m ? &whole : &out}, {m, n, k},
                            three()))
              break;
            int different = 0;
            if (m < max_m) out.each([&](const auto& at) { different += out.get(at) != whole.get(at); });
            EXPECT_EQ(different, 0) << kernel << ": " << m << " rows of " << k << ", " << ir::name_of(left) << " by " << ir::name_of(right) << (ready ? ", packed" : "");
          }
        }
      }
    }
  }
}

// Encoded weights with A of each type. All integer sums here are exact in f32.
TEST(matmul, int8_panels) {
  for (DType type : {DType::f32, DType::bf16, DType::f16}) {
    for (auto [n, k] : {std::array<int64_t, 2>{1, 1}, {7, 2}, {8, 3}, {33, 5}, {64, 9}, {80, 130}, {50, 2051}, {600, 40}}) {
      TestTensor b(DType::i8, {k, n}, order(2, k % 2 != 0)), packed = packed_room(DType::i8, k, n);
      uint32_t h = 1;
      b.each([&](const auto& at) { b.put(at, static_cast<double>(static_cast<int8_t>((h = h * 1664525u + 1013904223u) >> 24))); });
      run_kernel("matmul_pack", {}, {&b, &packed}, {k, n}, three());
      const std::vector<double> columns = b.values();
      for (int64_t m : {0, 1, 2, 3, 5, 15, 32, 33, 130}) {
        SCOPED_TRACE(fmt::format("{} {} x {} x {}", ir::name_of(type), m, n, k));
        TestTensor a(type, {m, k}), out(DType::f32, {m, n}), scale(DType::f32, {m, n}, {}, {0});
        fill_with_integers(a, 1);
        fill_with_integers(scale, 2);
        backend::cpu::BodyBuilder body({m}, {n});
        backend::Instruction accumulator{};
        accumulator.kind = backend::Instruction::Kind::accumulator;
        accumulator.dtype = DType::f32;
        const backend::Reg sum = body.push(accumulator);
        body.store(DType::f32, body.map(Op::mul, DType::f32, {sum, body.load(DType::f32)}));
        for (bool in_order : {false, true}) {
          for (std::string_view kernel : kernels_of("matmul")) {
            if (!run_kernel(kernel, serialise(MatmulArgs{true, 0, backend::cpu::emit(body.body).code, in_order}), {&a, &packed, &scale, &out}, {m, n, k}, three())) continue;
            const std::vector<double> rows = a.values();
            int wrong = 0;
            out.each([&](const auto& at) {
              double x = 0;
              for (int64_t i = 0; i < k; ++i) x += rows[static_cast<size_t>(at[0] * k + i)] * columns[static_cast<size_t>(i * n + at[1])];
              wrong += out.get(at) != x * scale.get(at);
            });
            EXPECT_EQ(wrong, 0) << kernel;
            EXPECT_TRUE(out.untouched_outside());
          }
        }
      }
    }
  }
}

// Numbers of 4 bits in groups, with scales of each type, with and without zeros. Scales are powers of two, so that all sums here are exact in f32 and all elements in bf16.
TEST(matmul, int4_groups) {
  for (auto [group, n, k] : {std::array<int64_t, 3>{32, 1, 32}, {32, 50, 96}, {64, 33, 448}, {128, 80, 128}, {128, 40, 4224}}) {
    for (DType of_scale : {DType::f32, DType::bf16, DType::f16}) {
      for (bool zeros : {false, true}) {
        const Groups groups{static_cast<uint8_t>(group), static_cast<uint8_t>(of_scale == DType::bf16 ? 2 : 4), zeros};
        TestTensor b(DType::i8, {k, n}, order(2, zeros)), scale(of_scale, {k / group, n}, order(2, of_scale == DType::f16)), zero(DType::i8, {k / group, n}),
            packed(DType::i8, {storage_bytes(panels_of(groups), std::array{k, n})});
        uint32_t h = 1;
        auto next = [&] { return (h = h * 1664525u + 1013904223u) >> 8; };
        b.each([&](const auto& at) { b.put(at, static_cast<double>(next() % 16) - 8); });
        scale.each([&](const auto& at) { scale.put(at, std::ldexp(next() % 2 == 0 ? 1 : -1, static_cast<int>(next() % 3))); });
        zero.each([&](const auto& at) { zero.put(at, static_cast<double>(next() % 16) - 8); });
        std::vector<TestTensor*> in{&b, &scale, &packed};
        if (zeros) in.insert(in.begin() + 2, &zero);
        run_kernel("matmul_pack_groups", {}, in, {k, n}, three());
        auto element = [&](int64_t i, int64_t j) { return (b.get({i, j}) - (zeros ? zero.get({i / group, j}) : 0)) * scale.get({i / group, j}); };
        std::vector<double> columns;
        for (int64_t i = 0; i < k; ++i) {
          for (int64_t j = 0; j < n; ++j) columns.push_back(element(i, j));
        }
        for (DType type : {DType::f32, DType::bf16, DType::f16}) {
          for (int64_t m : {0, 1, 2, 3, 6, 7, 33, 130}) {
            if ((m > 6 && type == DType::f16) || (m > 7 && k > 1000 && (of_scale != DType::bf16 || !zeros))) continue;
            SCOPED_TRACE(fmt::format("{} {} x {} x {} by {}, scales {}, zeros {}", ir::name_of(type), m, n, k, group, ir::name_of(of_scale), zeros));
            TestTensor a(type, {m, k}), out(DType::f32, {m, n}), bias(DType::f32, {m, n}, {}, {0});
            fill_with_integers(a, 1);
            fill_with_integers(bias, 2);
            backend::cpu::BodyBuilder body({m}, {n});
            backend::Instruction accumulator{};
            accumulator.kind = backend::Instruction::Kind::accumulator;
            accumulator.dtype = DType::f32;
            const backend::Reg sum = body.push(accumulator);
            body.store(DType::f32, body.map(Op::add, DType::f32, {sum, body.load(DType::f32)}));
            const std::vector<double> rows = a.values();
            for (bool in_order : {false, true}) {
              const backend::cpu::Emitted code = backend::cpu::emit(body.body);
              const MatmulArgs args{true, 0, code.code, in_order, std::nullopt, groups};
              int computed = 0;
              for (std::string_view kernel : kernels_of("matmul")) {
                if (!run_kernel(kernel, serialise(args), {&a, &packed, &bias, &out}, {m, n, k}, three())) continue;
                ++computed;
                int wrong = 0;
                out.each([&](const auto& at) {
                  double x = 0;
                  for (int64_t i = 0; i < k; ++i) x += rows[static_cast<size_t>(at[0] * k + i)] * columns[static_cast<size_t>(i * n + at[1])];
                  wrong += out.get(at) != x + bias.get(at);
                });
                EXPECT_EQ(wrong, 0) << kernel;
                EXPECT_TRUE(out.untouched_outside());
              }
              EXPECT_GE(computed, 1);
            }
          }
        }
      }
    }
  }
}

// Operands of a packing step that do not fit, and a step's constants that no group has, are refused.
TEST(matmul, damaged_int4_groups) {
  const Groups groups{32, 4, false};
  TestTensor b(DType::i8, {64, 8}), scale(DType::f32, {2, 8}), packed(DType::i8, {storage_bytes(panels_of(groups), std::array<int64_t, 2>{64, 8})});
  run_kernel("matmul_pack_groups", {}, {&b, &scale, &packed}, {64, 8}, three());
  TestTensor thirds(DType::f32, {3, 8}), fours(DType::f32, {4, 8}), narrow(DType::f32, {2, 7}), small(DType::i8, {1024}), floats(DType::f32, {64, 8});
  for (const std::vector<TestTensor*>& in :
       {std::vector<TestTensor*>{&b, &thirds, &packed}, {&b, &fours, &packed}, {&b, &narrow, &packed}, {&b, &scale, &small}, {&floats, &scale, &packed}})
    EXPECT_THROW(run_kernel("matmul_pack_groups", {}, in, {64, 8}, three()), Error);
  for (const Groups& bad : {Groups{48, 4, false}, Groups{32, 3, false}}) EXPECT_THROW(parse_matmul(serialise(MatmulArgs{true, 0, {}, false, std::nullopt, bad})), Error);
  EXPECT_THROW(parse_matmul(serialise(MatmulArgs{false, 0, {}, false, std::nullopt, groups})), Error);
}

// More than a block of rows, of K and of a segment, for both ways to split the work.
TEST(matmul, sizes_beyond_the_blocks) {
  for (auto [m, n, k] :
       {std::array<int64_t, 3>{127, 50, 400}, {130, 530, 33}, {3, 600, 2060}, {1, 1030, 515}, {300, 17, 390}, {520, 96, 64}, {49, 96, 300}, {49, 530, 70}, {196, 58, 58}}) {
    for (bool packed : {false, true}) {
      for (End end : {End::plain, End::residual, End::scaled_by_column}) check({.m = m, .n = n, .k = k, .packed = packed, .end = end}, three());
    }
  }
}

// A plan's timing chooses how a product is cut, which changes no result here. Timings of other machines, and choices that no kernel has, change nothing.
TEST(matmul, each_blocking_that_can_be_timed) {
  for (auto [m, n, k] : {std::array<int64_t, 3>{300, 600, 900}, {1, 1030, 2500}, {200, 40, 60}}) {
    for (bool packed : {false, true}) {
      const Case c{.m = m, .n = n, .k = k, .packed = packed, .end = End::residual};
      Choosing usual;
      check(c, three(), &usual);
      ASSERT_EQ(usual.tunables.size(), 1u);
      const Tunable& found = usual.tunables[0];
      std::set<size_t> scratches;
      for (const std::string& choice : found.choices) {
        const Timing timing{found.machine, found.problem, choice};
        Choosing timed{{&timing, 1}};
        check(c, three(), &timed);
        EXPECT_EQ(timed.tunables[0].choices, found.choices);
        scratches.insert(timed.scratch);
      }
      EXPECT_GE(scratches.size(), 2u);
      for (const Timing& other : {Timing{"another machine", found.problem, found.choices[1]}, Timing{found.machine, found.problem, "unheard of"}}) {
        Choosing ignored{{&other, 1}};
        check(c, three(), &ignored);
        EXPECT_EQ(ignored.scratch, usual.scratch);
      }
    }
  }
  Choosing none;
  check({.m = 20, .n = 20, .k = 20, .packed = true}, three(), &none);
  EXPECT_TRUE(none.tunables.empty());
}

TEST(matmul, transposed_and_padded_operands) {
  for (int bits = 0; bits < 16; ++bits) {
    for (auto [m, n, k] : {std::array<int64_t, 3>{9, 20, 70}, {40, 33, 5}, {5, 16, 64}}) {
      check({.m = m,
             .n = n,
             .k = k,
             .a_transposed = (bits & 1) != 0,
             .b_transposed = (bits & 2) != 0,
             .out_transposed = (bits & 4) != 0,
             .packed = (bits & 8) != 0,
             .pad = 3,
             .end = End::bias_relu},
            inline_workers());
    }
  }
}

TEST(matmul, batches_and_broadcast_batch_axes) {
  for (Workers* workers : {&inline_workers(), &three()}) {
    for (bool transposed : {false, true}) {
      check({.m = 5, .n = 20, .k = 9, .batch = {3}, .b_transposed = transposed}, *workers);
      check({.m = 5, .n = 32, .k = 9, .batch = {2, 3}, .b_transposed = transposed, .end = End::residual}, *workers);
      check({.m = 7, .n = 16, .k = 8, .batch = {2, 3}, .a_transposed = transposed, .a_broadcast = {0}}, *workers);
      check({.m = 7, .n = 17, .k = 8, .batch = {2, 3}, .b_transposed = transposed, .b_broadcast = {0, 1}, .end = End::bias}, *workers);
    }
    check({.m = 4, .n = 6, .k = 3, .batch = {0}}, *workers);
    check({.m = 4, .n = 6, .k = 0, .batch = {2}}, *workers);
    check({.m = 1, .n = 1, .k = 1, .batch = {17}}, *workers);
    check({.m = 4, .n = 4, .k = 4, .batch = {3, 40}, .out = DType::f32}, *workers);
    check({.m = 16, .n = 8, .k = 3, .batch = {600}, .type = DType::bf16, .out = DType::bf16}, *workers);
    check({.m = 3, .n = 5, .k = 16, .batch = {9}, .a_transposed = true, .pad = 2}, *workers);
  }
  EXPECT_GT(ran["matmul_small"], 0);
}

// Products that are only stored, by kernels whose B stays near: tiles and steps with rows, terms and columns left over, B turned or as it lies, more tasks than matrices and less.
TEST(matmul, rows_past_a_near_b) {
  for (DType type : {DType::f32, DType::f64, DType::bf16}) {
    for (auto [m, n, k] :
         {std::array<int64_t, 3>{1, 5, 3}, {7, 16, 8}, {9, 40, 21}, {16, 17, 1}, {17, 64, 33}, {33, 1, 1}, {40, 33, 34}, {47, 50, 40}, {65, 80, 64}, {3000, 40, 9}}) {
      for (int bits = 0; bits < 8; ++bits) {
        const Case c{.m = m, .n = n, .k = k, .type = type, .out = type, .a_transposed = (bits & 1) != 0, .b_transposed = (bits & 2) != 0, .pad = (bits & 4) != 0 ? 3 : 0};
        if (m < 1000 || bits == 2) check(c, three());
      }
    }
    for (bool transposed : {false, true}) {
      check({.m = 21, .n = 24, .k = 12, .batch = {2, 3}, .type = type, .out = type, .b_transposed = transposed}, three());
      check({.m = 600, .n = 64, .k = 30, .batch = {3}, .type = type, .out = type, .b_transposed = transposed, .b_broadcast = {0}}, three());
      check({.m = 8, .n = 8, .k = 8, .batch = {300}, .type = type, .out = type, .b_transposed = transposed}, three());
      check({.m = 20, .n = 8, .k = 8, .batch = {2}, .type = type, .out = type, .a_broadcast = {0}}, inline_workers());
    }
  }
  EXPECT_GT(ran["matmul_short"], 0);
  if (backend::cpu::isa() >= backend::cpu::Isa::amx_bf16) {
    EXPECT_GT(ran["matmul_short_matrix"], 0);
  }
}

// What the costs choose, by rows of the table of machines: matrix registers but for one row or two, and dot products where there are no such registers. In order, whatever the number of rows.
TEST(matmul, costs_choose_the_kernel) {
  auto chosen = [](const char* machine, int64_t m, DType panel, bool in_order = false) {
    const conv::Cpu cpu{machine_named(machine), 16, 1};
    const matmul::ProductSizes s{static_cast<double>(m), m, 768, 1024, panel, true, in_order};
    const std::pair<double, std::string> costs[] = {{cost_of_tiles(s, cpu), "tiles"}, {cost_of_dots(s, cpu), "dots"}, {cost_of_matrix(s, cpu), "matrix"}};
    return std::min_element(std::begin(costs), std::end(costs))->second;
  };
  for (int64_t m : {1, 2, 3, 4, 5, 8, 16, 17, 40, 200, 1000}) {
    EXPECT_EQ(chosen("cpu:avx2", m, DType::bf16), "tiles");
    EXPECT_EQ(chosen("cpu:avx512", m, DType::bf16), "tiles");
    EXPECT_EQ(chosen("cpu:avx512_bf16", m, DType::bf16), "dots");
    EXPECT_EQ(chosen("cpu:amx_bf16", m, DType::bf16), m <= 2 ? "dots" : "matrix") << m;
    EXPECT_EQ(chosen("cpu:amx_bf16", m, DType::i8), m <= 6 ? "tiles" : "matrix") << m;
    EXPECT_EQ(chosen("cpu:amx_bf16", m, DType::bf16, true), "matrix");
    EXPECT_EQ(chosen("cpu:avx512_bf16", m, DType::i8, true), "dots");
    EXPECT_EQ(chosen("cpu:avx2", m, DType::i8, true), "tiles");
  }
}

TEST(matmul, every_ending) {
  for (End end : {End::plain, End::bias, End::relu, End::bias_relu, End::residual, End::bias_gelu_residual, End::scaled_by_column, End::relu_affine}) {
    for (int64_t n : {16, 48, 50}) {  // whole panels end in the tile, others in a segment
      for (bool packed : {false, true}) {
        check({.m = 13, .n = n, .k = 20, .packed = packed, .end = end}, inline_workers());
        check({.m = 13, .n = n, .k = 20, .out_transposed = true, .packed = packed, .end = end}, inline_workers());
      }
    }
  }
}

TEST(matmul, dtypes) {
  for (bool transposed : {false, true}) {
    for (DType t : {DType::f16, DType::bf16}) {
      for (bool packed : {false, true}) check({.m = 13, .n = 33, .k = 21, .type = t, .b_transposed = transposed, .packed = packed}, inline_workers());
      check({.m = 13, .n = 32, .k = 21, .type = t, .out = t, .a_transposed = transposed}, inline_workers());  // sums of 21 products below 10 are exact in either
    }
    for (DType t : {DType::f64, DType::i64, DType::i32, DType::i8}) {
      check({.m = 5, .n = 600, .k = 7, .batch = {2}, .type = t, .out = t, .b_transposed = transposed}, three());
    }
  }
  check({.m = 2, .n = 3, .k = 400, .type = DType::i8, .out = DType::i8}, inline_workers());
}

// Blocks of rows, of K and of columns, and tiles with rows missing.
TEST(matmul, sums_of_eight_bytes) {
  for (DType t : {DType::f64, DType::i64, DType::i32, DType::i8}) {
    for (int64_t m = 1; m <= 14; ++m) check({.m = m, .n = 35, .k = 9, .type = t, .out = t}, inline_workers());
    for (auto [m, n, k] : {std::array<int64_t, 3>{1, 40, 900}, {100, 70, 390}, {49, 530, 50}, {3, 1, 1200}, {50, 44, 400}, {64, 64, 0}}) {
      for (int bits = 0; bits < 4; ++bits) {
        check({.m = m, .n = n, .k = k, .type = t, .out = t, .a_transposed = (bits & 1) != 0, .b_transposed = (bits & 2) != 0, .pad = 3}, three());
        if (t == DType::f64) check({.m = m, .n = n, .k = k, .type = t, .out = t, .a_transposed = (bits & 1) != 0, .b_transposed = (bits & 2) != 0, .packed = true}, three());
      }
    }
  }
}

TEST(matmul, infinity_and_nan_stay_in_their_row) {
  const int64_t m = 9, n = 20, k = 6;
  for (double bad : {static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
    TestTensor a(DType::f32, {m, k}), b(DType::f32, {k, n}), out(DType::f32, {m, n});
    a.each([&](const auto& at) { a.put(at, 1); });
    b.each([&](const auto& at) { b.put(at, 1); });
    a.put({4, 2}, bad);
    backend::cpu::BodyBuilder body({m}, {n});
    backend::Instruction accumulator{};
    accumulator.kind = backend::Instruction::Kind::accumulator;
    accumulator.dtype = DType::f32;
    body.store(DType::f32, body.push(accumulator));
    run_kernel("matmul", serialise(MatmulArgs{false, 0, backend::cpu::emit(body.body).code}), {&a, &b, &out}, {m, n, k}, inline_workers());
    out.each([&](const std::vector<int64_t>& at) {
      double x = out.get(at);
      EXPECT_TRUE(at[0] != 4 ? x == 6 : std::isnan(bad) ? std::isnan(x) : x == bad) << at[0] << ", " << at[1] << ": " << x;
    });
  }
}

TEST(matmul, operands_that_do_not_fit_are_refused) {
  TestTensor a(DType::f32, {4, 5}), b(DType::f32, {5, 6}), out(DType::f32, {4, 6}), ints(DType::i32, {5, 6}), small(DType::f32, {10});
  backend::cpu::BodyBuilder body({4}, {6});
  backend::Instruction accumulator{};
  accumulator.kind = backend::Instruction::Kind::accumulator;
  accumulator.dtype = DType::f32;
  body.store(DType::f32, body.push(accumulator));
  std::vector<std::byte> code = backend::cpu::emit(body.body).code;
  auto code_of = [&](bool packed, std::vector<TestTensor*> operands, std::vector<int64_t> sizes) {
    try {
      run_kernel("matmul", serialise(MatmulArgs{packed, 0, code}), operands, sizes, inline_workers());
    } catch (const Error& e) {
      return e.code;
    }
    return Code::ok;
  };
  EXPECT_EQ(code_of(false, {&a, &b, &out}, {4, 6, 5}), Code::ok);
  EXPECT_EQ(code_of(false, {&a, &b, &out}, {4, 6, 4}), Code::format);
  EXPECT_EQ(code_of(false, {&a, &b, &out}, {4, 7, 5}), Code::format);
  EXPECT_EQ(code_of(false, {&a, &b, &out}, {4, 6}), Code::format);
  EXPECT_EQ(code_of(false, {&a, &ints, &out}, {4, 6, 5}), Code::format);
  EXPECT_EQ(code_of(false, {&a, &b, &a}, {4, 6, 5}), Code::format);
  EXPECT_EQ(code_of(true, {&a, &small, &out}, {4, 6, 5}), Code::format);
  for (DType type : {DType::f32, DType::bf16, DType::f16}) {
    TestTensor room = packed_room(type, 5, 6), less(type, {room.dims[0] - 1}), matrix(type, {4, room.dims[0]});
    EXPECT_EQ(code_of(true, {&a, &room, &out}, {4, 6, 5}), Code::ok);
    EXPECT_EQ(code_of(true, {&a, &less, &out}, {4, 6, 5}), Code::format);
    EXPECT_EQ(code_of(true, {&a, &matrix, &out}, {4, 6, 5}), Code::format);
  }
  TestTensor other(DType::i32, {1 << 16}), wide(DType::f64, {1 << 16});
  EXPECT_EQ(code_of(true, {&a, &other, &out}, {4, 6, 5}), Code::format);
  EXPECT_EQ(code_of(true, {&a, &wide, &out}, {4, 6, 5}), Code::format);
  EXPECT_EQ(code_of(false, {&a, &b}, {4, 6, 5}), Code::format);
}

TEST(matmul, packing_into_what_does_not_fit_is_refused) {
  TestTensor b(DType::bf16, {5, 6});
  auto code_of = [&](TestTensor to, std::vector<int64_t> sizes) {
    try {
      run_kernel("matmul_pack", {}, {&b, &to}, sizes, inline_workers());
    } catch (const Error& e) {
      return e.code;
    }
    return Code::ok;
  };
  EXPECT_EQ(code_of(packed_room(DType::bf16, 5, 6), {5, 6}), Code::ok);
  EXPECT_EQ(code_of(packed_room(DType::f32, 5, 6), {5, 6}), Code::ok);
  EXPECT_EQ(code_of(packed_room(DType::f16, 5, 6), {5, 6}), Code::format);
  EXPECT_EQ(code_of(packed_room(DType::bf16, 4, 6), {5, 6}), Code::format);
  EXPECT_EQ(code_of(packed_room(DType::bf16, 5, 6), {5, 5}), Code::format);
  EXPECT_EQ(code_of(packed_room(DType::i8, 5, 6), {5, 6}), Code::format);
}

TEST(matmul, packing_writes_each_byte) {
  for (DType type : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8}) {
    TestTensor b(type, {5, 6}), one = packed_room(type, 5, 6), other = packed_room(type, 5, 6);
    fill_with_integers(b, 1);
    one.each([&](const std::vector<int64_t>& at) { one.put(at, 1), other.put(at, 2); });
    for (TestTensor* to : {&one, &other}) run_kernel("matmul_pack", {}, {&b, to}, {5, 6}, inline_workers());
    EXPECT_EQ(one.values(), other.values()) << ir::name_of(type);
  }
}

TEST(matmul, bytes_of_a_packed_operand) {
  EXPECT_EQ(packed_bytes(DType::f32, 5, 6), 4 * 5 * 32 + 4096);
  EXPECT_EQ(packed_bytes(DType::f16, 5, 6), 2 * 5 * 32 + 4096);
  EXPECT_EQ(packed_bytes(DType::bf16, 5, 6), 2 * 6 * 32 + 4096);
  EXPECT_EQ(packed_bytes(DType::i8, 5, 6), 5 * 32 + 4096);
  EXPECT_EQ(packed_bytes(DType::bf16, INT64_MAX, 1), INT64_MAX);
  EXPECT_EQ(packed_bytes(DType::f32, int64_t{1} << 40, int64_t{1} << 40), INT64_MAX);
}

TEST(matmul, arguments_cut_off_or_damaged_are_refused) {
  std::vector<std::byte> bytes = serialise(MatmulArgs{true, 2, {}});
  EXPECT_TRUE(parse_matmul(bytes).packed);
  EXPECT_EQ(parse_matmul(bytes).batch_rank, 2);
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_THROW(parse_matmul(std::span(bytes).first(n)), Error);
  bytes[0] = std::byte{2};
  EXPECT_THROW(parse_matmul(bytes), Error);
}

}  // namespace
}  // namespace ingot::kernels
