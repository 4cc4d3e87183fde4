// Which epilogues and matrices cuBLASLt takes.
#include "backend/cuda/kernels/gpu_step_test.h"

#include <gtest/gtest.h>

#include "backend/compiler.h"
#include "backend/cuda/kernels/gemm/run/gemm_args.h"
#include "backend/cuda/kernels/matmul/run/matmul_args.h"
#include "base/error.h"

namespace ingot::backend::cuda {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;
using kernels::MatmulCudaArgs;

constexpr int64_t M = 6, N = 8, K = 4;

// D = f(acc), with loads of a bias along N and a residual.
struct Case {
  Gemm product{{DType::f16}, {{Dim(M), Dim(K)}, {Dim(K), Dim(1)}}, {{{Dim(K), Dim(N)}, {Dim(1), Dim(K)}}}};
  FusedBody body;
  std::vector<StridedLayout> layouts;
  Reg accumulator;
  bool tf32 = false;

  Case() {
    body.outer = {Dim(M)};
    body.row = {Dim(N)};
    Instruction i{};
    i.kind = Instruction::Kind::accumulator;
    accumulator = add(i);
  }
  Reg add(Instruction i, DType t = DType::f32) {
    i.dtype = t;
    body.code.push_back(std::move(i));
    return static_cast<Reg>(body.code.size() - 1);
  }
  Reg map(Op op, std::vector<Reg> in, DType t = DType::f32) {
    Instruction i{};
    i.kind = Instruction::Kind::map;
    i.op = op;
    i.in = std::move(in);
    return add(i, t);
  }
  Reg load(StridedLayout layout, DType t = DType::f16) {
    Instruction i{};
    i.kind = Instruction::Kind::load;
    i.operand = static_cast<uint32_t>(layouts.size());
    layouts.push_back(std::move(layout));
    body.operands.push_back(t);
    return add(i);
  }
  Reg bias() { return load({{Dim(1), Dim(N)}, {Dim(0), Dim(1)}}); }
  Reg residual() { return load({{Dim(M), Dim(N)}, {Dim(N), Dim(1)}}); }
  Reg number(double v) {
    Instruction i{};
    i.kind = Instruction::Kind::literal;
    i.number = v;
    return add(i);
  }
  Taken store(Reg value, StridedLayout layout = {{Dim(M), Dim(N)}, {Dim(N), Dim(1)}}, DType t = DType::f16) {
    body.stores = {{static_cast<uint32_t>(layouts.size()), value}};
    layouts.push_back(std::move(layout));
    body.operands.push_back(t);
    return take(library_gemm(product, body, layouts, tf32));
  }
};

MatmulCudaArgs taken(const Taken& answer) {
  EXPECT_EQ(answer.obstacle, std::nullopt);
  return kernels::parse_matmul_cuda(answer.step.constants);
}

TEST(cuda_gemm, epilogues_that_are_taken) {
  {
    Case s;
    MatmulCudaArgs a = taken(s.store(s.accumulator));
    EXPECT_EQ(a.bias + a.residual + a.activation, 0);
    EXPECT_EQ(a.alpha, 1);
  }
  {
    Case s;
    Reg b = s.bias(), r = s.residual();
    MatmulCudaArgs a = taken(s.store(s.map(Op::relu, {s.map(Op::add, {r, s.map(Op::add, {s.accumulator, b})})})));
    EXPECT_EQ(a.bias, 1);
    EXPECT_EQ(a.residual, 2);
    EXPECT_EQ(a.activation, MatmulCudaArgs::relu);
  }
  {
    Case s;
    Reg scaled = s.map(Op::mul, {s.number(0.125), s.accumulator});
    MatmulCudaArgs a = taken(s.store(s.map(Op::cast, {s.map(Op::gelu_tanh, {s.map(Op::add, {scaled, s.bias()})})}, DType::f16)));
    EXPECT_EQ(a.alpha, 0.125);
    EXPECT_EQ(a.bias, 1);
    EXPECT_EQ(a.activation, MatmulCudaArgs::gelu_tanh);
  }
  {
    Case s;  // scores of half precision stay in f32
    taken(s.store(s.accumulator, {{Dim(M), Dim(N)}, {Dim(N), Dim(1)}}, DType::f32));
  }
}

TEST(cuda_gemm, other_bodies_stay_separate) {
  auto expect_separate = [](auto body) {
    Case s;
    EXPECT_EQ(body(s).obstacle, Obstacle::body);
  };
  expect_separate([](Case& s) { return s.store(s.map(Op::gelu, {s.accumulator})); });
  expect_separate([](Case& s) { return s.store(s.map(Op::add, {s.map(Op::relu, {s.accumulator}), s.bias()})); });
  expect_separate([](Case& s) { return s.store(s.map(Op::mul, {s.map(Op::add, {s.accumulator, s.bias()}), s.number(2)})); });
  expect_separate([](Case& s) { return s.store(s.map(Op::add, {s.accumulator, s.accumulator})); });
  expect_separate([](Case& s) { return s.store(s.map(Op::add, {s.map(Op::add, {s.accumulator, s.bias()}), s.bias()})); });
  expect_separate([](Case& s) { return s.store(s.map(Op::add, {s.accumulator, s.load({{Dim(M), Dim(1)}, {Dim(1), Dim(0)}})})); });  // along M
  expect_separate([](Case& s) { return s.store(s.map(Op::add, {s.accumulator, s.load({{Dim(1), Dim(N)}, {Dim(0), Dim(1)}}, DType::f32)})); });
  expect_separate([](Case& s) { return s.store(s.map(Op::add, {s.accumulator, s.bias()}), {{Dim(M), Dim(N)}, {Dim(1), Dim(M)}}); });  // a transposed result
  expect_separate([](Case& s) { return s.store(s.map(Op::cast, {s.accumulator}, DType::bf16), {{Dim(M), Dim(N)}, {Dim(N), Dim(1)}}, DType::bf16); });
}

TEST(cuda_gemm, what_is_no_matrix_is_copied) {
  Case a, b, c;
  a.product.a.strides = {Dim(2 * K), Dim(2)};
  EXPECT_EQ(a.store(a.accumulator).obstacle, Obstacle::a);
  b.product.b[0].strides = {Dim(0), Dim(1)};
  EXPECT_EQ(b.store(b.accumulator).obstacle, Obstacle::b);
  c.product.a.strides = {Dim(-K), Dim(1)};
  EXPECT_EQ(c.store(c.accumulator).obstacle, Obstacle::a);
  Case integers;
  integers.product.type = DType::i64;
  EXPECT_EQ(integers.store(integers.accumulator).obstacle, Obstacle::types);
}

TEST(cuda_gemm, what_ingots_own_kernel_takes) {
  auto own = [](auto change, auto body) {
    Case s;
    s.product.a = {{Dim(M), Dim(16)}, {Dim(16), Dim(1)}};
    s.product.b = {{{Dim(16), Dim(N)}, {Dim(1), Dim(16)}}};
    change(s);
    body(s);
    return own_gemm(s.product, s.body, s.layouts, true);
  };
  auto gelu = [](Case& s) { s.store(s.map(Op::gelu, {s.map(Op::add, {s.accumulator, s.load({{Dim(M), Dim(1)}, {Dim(1), Dim(0)}})})})); };
  auto same = [](Case&) {};
  Taken taken = own(same, gelu);
  ASSERT_EQ(taken.obstacle, std::nullopt);
  EXPECT_EQ(taken.step.kernel, "gemm_skinny");
  kernels::GemmArgs args = kernels::parse_gemm_cuda(taken.step.constants);
  EXPECT_TRUE(args.b_along_k);
  EXPECT_EQ(args.together, std::vector<uint8_t>{1});
  EXPECT_EQ(kernels::serialise(args), taken.step.constants);
  // The text contains no sizes.
  Taken other = own([](Case& s) { s.product.a = {{Dim(M), Dim(64)}, {Dim(64), Dim(1)}}, s.product.b = {{{Dim(64), Dim(N)}, {Dim(1), Dim(64)}}}; }, gelu);
  EXPECT_EQ(other.step.code[0].name, taken.step.code[0].name);
  EXPECT_FALSE(kernels::parse_gemm_cuda(own([](Case& s) { s.product.b[0].strides = {Dim(N), Dim(1)}; }, gelu).step.constants).b_along_k);
  auto refused = [&](auto change) { return own(change, gelu).obstacle; };
  EXPECT_EQ(refused([](Case& s) { s.product.type = DType::f64; }), Obstacle::types);
  EXPECT_EQ(refused([](Case& s) { s.product.a.strides = {Dim(1), Dim(M)}; }), Obstacle::a);
  EXPECT_EQ(refused([](Case& s) { s.product.a.dims[1] = 12; }), Obstacle::a);  // not a multiple of eight
  auto floats = [](Case& s) { s.product.type = DType::f32, s.product.a.dims[1] = 12; };
  EXPECT_EQ(refused(floats), std::nullopt);  // but a multiple of four
  EXPECT_EQ(refused([](Case& s) { s.body.row = {Dim(4)}; }), Obstacle::types);
  EXPECT_EQ(refused([](Case& s) { s.product.b[0].strides = {Dim(2 * N), Dim(2)}; }), Obstacle::b);
  EXPECT_EQ(own(same,
                [&](Case& s) {
                  Instruction i{};
                  i.kind = Instruction::Kind::reduce;
                  i.in = {s.accumulator};
                  s.store(s.add(i));
                })
                .obstacle,
            Obstacle::body);
}

// Floats are only multiplied by TF32, so the settings decide: one for convolutions, one for other GEMMs.
TEST(cuda_gemm, floats_are_taken_where_tf32_is_allowed) {
  auto own = [](bool convolution, Settings settings) {
    Gemm sketch{{DType::f32}, unplaced({Dim(M), Dim(64)}), {unplaced({Dim(64), Dim(N)})}};
    sketch.convolution = convolution;
    const Offers found = compiler_for(cuda_target(90)).offers(site_of(std::move(sketch)), cuda_target(90), settings);
    return std::any_of(found.offers.begin(), found.offers.end(), [](const Offer& o) { return o.implementation.starts_with("gemm_") && wishes(o, Role::b, Wish::Axis::k); });
  };
  Settings ieee, products, convolutions;
  products.tf32 = true;
  convolutions.tf32_convolutions = true;
  EXPECT_FALSE(own(false, ieee) || own(true, ieee) || own(true, products) || own(false, convolutions));
  EXPECT_TRUE(own(false, products) && own(true, convolutions));
  // The same for a site whose layouts are known.
  for (bool tf32 : {false, true}) {
    Case s;
    s.product.type = DType::f32;
    s.product.convolution = true;
    s.product.a = {{Dim(M), Dim(64)}, {Dim(64), Dim(1)}};
    s.product.b = {{{Dim(64), Dim(N)}, {Dim(1), Dim(64)}}};
    s.body.outer = {Dim(M)};
    s.store(s.map(Op::silu, {s.accumulator}), {{Dim(M), Dim(N)}, {Dim(N), Dim(1)}}, DType::f32);
    Settings settings;
    settings.tf32_convolutions = tf32;
    const Offers found = compiler_for(cuda_target(90)).offers(site_of(s.product, &s.body, s.layouts), cuda_target(90), settings);
    EXPECT_EQ(std::any_of(found.offers.begin(), found.offers.end(), [](const Offer& o) { return o.implementation.starts_with("gemm_"); }), tf32);
    EXPECT_EQ(std::any_of(found.refusals.begin(), found.refusals.end(), [](const Refusal& r) { return r.reason.find("TF32") != std::string::npos; }), !tf32);
  }
}

// A prologue of one row is taken if its length is known and its operands are contiguous rows.
TEST(cuda_gemm, prologues_of_one_row) {
  auto own = [](auto change) {
    Case s;
    s.body.outer = {Dim(1)};
    s.product.a = {{Dim(1), Dim(16)}, {Dim(16), Dim(1)}};
    s.product.b = {{{Dim(16), Dim(N)}, {Dim(1), Dim(16)}}};
    s.store(s.accumulator, {{Dim(1), Dim(N)}, {Dim(N), Dim(1)}});
    Case row;
    row.body.code.clear();
    row.body.outer = {Dim(1)};
    row.body.row = {Dim(16)};
    StridedLayout along{{Dim(1), Dim(16)}, {Dim(0), Dim(1)}};
    row.store(row.map(Op::mul, {row.load(along), row.load(along, DType::f32)}), along);
    s.product.prologue = {&row.body, row.layouts};
    change(s);
    EXPECT_NE(s.store(s.accumulator).obstacle, std::nullopt);  // not for the library
    s.layouts.pop_back();
    s.body.operands.pop_back();
    s.body.stores = {{0, s.accumulator}};
    return own_gemm(s.product, s.body, s.layouts, true);
  };
  Taken taken = own([](Case&) {});
  ASSERT_EQ(taken.obstacle, std::nullopt);
  EXPECT_EQ(taken.step.code[0].kernels.size(), 2u);
  kernels::GemmArgs args = kernels::parse_gemm_cuda(taken.step.constants);
  EXPECT_EQ(args.row, 16);
  ASSERT_EQ(args.sources.size(), 2u);
  EXPECT_EQ(args.left(), 2u);
  EXPECT_EQ(kernels::serialise(args), taken.step.constants);
  EXPECT_EQ(own([](Case& s) { s.product.prologue->operands[0].strides[1] = Dim::symbol(0); }).obstacle, Obstacle::a);
  EXPECT_EQ(own([](Case& s) { s.product.prologue->operands[2].strides[1] = 2; }).obstacle, Obstacle::a);
  EXPECT_EQ(own([](Case& s) { s.product.b[0].strides = {Dim(N), Dim(1)}; }).obstacle, Obstacle::a);
  EXPECT_EQ(own([](Case& s) { s.product.a.dims[0] = 2; }).obstacle, Obstacle::a);
  auto halves = [&](auto change) {
    return own([&](Case& s) {
      s.product.gated = true;
      s.product.b[0].dims[1] = 2 * N;
      change(s);
    });
  };
  EXPECT_EQ(halves([](Case&) {}).obstacle, std::nullopt);
  EXPECT_EQ(halves([](Case& s) { s.product.prologue.reset(); }).obstacle, std::nullopt);
  EXPECT_EQ(halves([](Case& s) { s.product.b[0].strides = {Dim(2 * N), Dim(1)}; }).obstacle, Obstacle::body);
  auto in_three_parts = [&](auto change) {
    return own([&](Case& s) {
      s.product.prologue.reset();
      s.product.b.resize(3, s.product.b[0]);
      change(s);
    });
  };
  Taken three = in_three_parts([](Case&) {});
  ASSERT_EQ(three.obstacle, std::nullopt);
  EXPECT_EQ(three.step.code[0].kernels.size(), 2u);
  EXPECT_EQ(kernels::parse_gemm_cuda(three.step.constants).b_end(), 4u);
  EXPECT_EQ(in_three_parts([](Case& s) { s.product.a.dims[0] = 8; }).obstacle, std::nullopt);
  EXPECT_EQ(in_three_parts([](Case& s) { s.product.a.dims[0] = 9; }).obstacle, std::nullopt);
  auto of_five = [](Case& s) {
    s.product.a.dims[0] = 9;
    s.product.b.resize(5, s.product.b[0]);
  };
  EXPECT_EQ(in_three_parts(of_five).obstacle, Obstacle::b);
  EXPECT_EQ(in_three_parts([](Case& s) { s.product.b[0].strides = {Dim(N), Dim(1)}; }).obstacle, Obstacle::b);
  auto offered = [](Gemm sketch) { return !compiler_for(cuda_target(90)).offers(site_of(std::move(sketch)), cuda_target(90), {}).offers.empty(); };
  auto takes = [&](DType type, bool one_row, std::vector<int64_t> columns) {
    Gemm sketch{{type}, unplaced({Dim(one_row ? 1 : 2), Dim(4096)}), {}};
    for (int64_t n : columns) sketch.b.push_back(unplaced({Dim(4096), Dim(n)}));
    return offered(std::move(sketch));
  };
  auto takes_prologue = [&](DType type, int64_t k) {
    Gemm sketch{{type}, unplaced({Dim(1), Dim(k)}), {unplaced({Dim(k), Dim(64)})}};
    sketch.prologue = Gemm::Prologue{};
    return offered(std::move(sketch));
  };
  EXPECT_TRUE(takes(DType::bf16, true, {4096, 8, 8}) && takes(DType::f16, false, {4096, 1024}) && takes(DType::f32, true, {512, 520, 512, 512, 512}));
  EXPECT_FALSE(takes(DType::bf16, true, {4096, 1020}) || takes(DType::bf16, true, {8, 8, 8, 8, 8}) || takes(DType::f16, false, {4096, 1016}) ||
               takes(DType::i64, false, {4096, 4096}));
  EXPECT_TRUE(takes_prologue(DType::bf16, 4096));
  EXPECT_FALSE(takes_prologue(DType::f32, 4096) || takes_prologue(DType::bf16, 4100) || takes_prologue(DType::bf16, 14336));
}

TEST(cuda_gemm, damaged_arguments_of_the_own_kernel) {
  Case s, row;
  s.product.a = {{Dim(1), Dim(16)}, {Dim(16), Dim(1)}};
  s.product.b = {{{Dim(16), Dim(N)}, {Dim(1), Dim(16)}}};
  s.body.outer = {Dim(1)};
  s.store(s.map(Op::gelu, {s.map(Op::add, {s.accumulator, s.bias()})}));
  row.body.code.clear();
  row.body.outer = {Dim(1)};
  row.body.row = {Dim(16)};
  row.store(row.load({{Dim(1), Dim(16)}, {Dim(0), Dim(1)}}), {{Dim(1), Dim(16)}, {Dim(0), Dim(1)}});
  s.product.prologue = {&row.body, row.layouts};
  std::vector<std::byte> good = own_gemm(s.product, s.body, s.layouts, false).step.constants;
  int refused = 0;
  for (size_t at = 0; at < good.size(); ++at) {
    for (int v = 0; v < 256; v += 5) {
      std::vector<std::byte> bytes = good;
      bytes[at] = static_cast<std::byte>(v);
      try {
        auto a = kernels::parse_gemm_cuda(bytes);
        EXPECT_TRUE(a.map.rank <= 8 && a.map.m_rank <= 8 && a.stores <= a.operands.size() && a.map.steps.size() == size_t{a.map.rank} * (a.map.m_rank + a.map.k_rank));
        for (uint8_t k : a.together) EXPECT_LT(k, a.operands.size());
      } catch (const Error& e) {
        EXPECT_EQ(e.code, Code::format);
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 1000);
  for (size_t n = 0; n < good.size(); ++n) EXPECT_THROW(kernels::parse_gemm_cuda(std::span(good).first(n)), Error);
}

TEST(cuda_gemm, tf32_is_for_f32_and_when_asked_for) {
  for (DType type : {DType::f32, DType::f16}) {
    for (bool asked : {false, true}) {
      Case s;
      s.product.type = type;
      s.tf32 = asked;
      EXPECT_EQ(taken(s.store(s.accumulator, {{Dim(M), Dim(N)}, {Dim(N), Dim(1)}}, type)).tf32, asked && type == DType::f32);
    }
  }
}

TEST(cuda_gemm, arguments_are_checked) {
  Case s;
  std::vector<std::byte> good = s.store(s.map(Op::add, {s.map(Op::add, {s.accumulator, s.bias()}), s.residual()})).step.constants;
  EXPECT_EQ(kernels::serialise(kernels::parse_matmul_cuda(good)), good);
  int refused = 0;
  for (size_t at = 0; at < 8; ++at) {
    for (int v = 0; v < 256; ++v) {
      std::vector<std::byte> bytes = good;
      bytes[at] = static_cast<std::byte>(v);
      try {
        MatmulCudaArgs a = kernels::parse_matmul_cuda(bytes);
        EXPECT_TRUE(a.bias <= 2 && a.residual <= 2 && (a.bias == 0 || a.bias != a.residual));
        EXPECT_TRUE((a.bias != 2 || a.residual == 1) && (a.residual != 2 || a.bias == 1));
        EXPECT_TRUE(a.parts_of_b == 1 || (a.parts_of_b > 1 && a.batch_rank == 0));
      } catch (const Error& e) {
        EXPECT_EQ(e.code, Code::format);
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_THROW(kernels::parse_matmul_cuda(std::span(good).first(15)), Error);
}

}  // namespace
}  // namespace ingot::backend::cuda
