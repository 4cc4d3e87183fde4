// Attention against plain loops in double. The bound follows the roundings: of the scores, of the exponentials and of the sums.
#include "kernels/attention/run/attention_args.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/compile/body_builder_test.h"
#include "backend/cpu/kernels/kernel_test.h"
#include "base/error.h"

namespace ingot::kernels {
namespace {

using ir::DType;
using ir::Op;

enum class Mask { none, padding, full, blocked };

struct Case {
  int64_t s, t, d, e;
  std::vector<int64_t> batch = {};
  DType type = DType::f32;
  bool causal = false;
  Mask mask = Mask::none;
  bool heads_inside = false;           // memory is [.., S, head, D], as a projection leaves it
  std::vector<size_t> kv_broadcast = {};
  double size = 1;                     // of the scores
};

std::string text(const Case& c) {
  std::string s = fmt::format("S {} T {} D {} E {}, batch", c.s, c.t, c.d, c.e);
  for (int64_t b : c.batch) s += " " + std::to_string(b);
  return s + fmt::format(", {}, causal {}, mask {}, heads inside {}, size {}", ir::name_of(c.type), c.causal, static_cast<int>(c.mask), c.heads_inside, c.size);
}

void fill(TestTensor& t, uint32_t seed, double size) {
  t.each([&](const std::vector<int64_t>& at) {
    uint32_t h = seed;
    for (size_t d = 0; d < at.size(); ++d) h = (h ^ static_cast<uint32_t>(t.strides[d] == 0 ? 0 : at[d])) * 2654435761u + 40503u, h ^= h >> 15;
    t.put(at, size * (static_cast<double>(h % 2001) / 1000 - 1));
  });
}

std::vector<int64_t> with(std::vector<int64_t> batch, int64_t rows, int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

void check(const Case& c, Workers& workers, std::string_view kernel) {
  SCOPED_TRACE(fmt::format("{}: {}", kernel, text(c)));
  const size_t rank = c.batch.size() + 2;
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  if (c.heads_inside) std::swap(order[rank - 2], order[rank - 3]);
  TestTensor q(c.type, with(c.batch, c.s, c.d), order), k(c.type, with(c.batch, c.t, c.d), order, c.kv_broadcast), v(c.type, with(c.batch, c.t, c.e), order, c.kv_broadcast);
  TestTensor out(c.type, with(c.batch, c.s, c.e), order);
  fill(q, 1, c.size);
  fill(k, 2, 1);
  fill(v, 3, 1);
  std::vector<size_t> same = {rank - 2};  // a padding mask is the same for all queries
  const DType score_type = c.type == DType::f64 ? DType::f64 : DType::f32;
  TestTensor mask(score_type, with(c.batch, c.s, c.t), {}, c.mask == Mask::padding ? same : std::vector<size_t>{});
  mask.each([&](const std::vector<int64_t>& at) {
    const int64_t t = at.back();
    bool hidden = c.mask == Mask::padding ? t % 3 == 1 : c.mask == Mask::full ? (at[rank - 2] + t) % 4 == 1 : true;
    mask.put(at, hidden ? -INFINITY : 0.25 * static_cast<double>(t % 5));
  });

  std::vector<TestTensor*> operands = {&q, &k, &v};
  std::vector<int64_t> sizes = {c.s, c.t, c.d, c.e};
  std::vector<std::byte> code;
  if (c.mask != Mask::none) {
    std::vector<int64_t> outer = c.batch;
    outer.push_back(c.s);
    backend::cpu::BodyBuilder body(outer, {c.t});
    backend::Instruction score{};
    score.kind = backend::Instruction::Kind::accumulator;
    score.dtype = score_type;
    backend::Reg x = body.push(score);
    body.store(score_type, body.map(Op::add, score_type, {x, body.load(score_type)}));
    backend::cpu::Emitted emitted = backend::cpu::emit(body.body);
    code = emitted.code;
    for (const ir::Dim& d : emitted.sizes) sizes.push_back(d.value());
    operands.push_back(&mask);
  }
  operands.push_back(&out);
  const float scale = 0.7f;
  AttentionArgs args;
  args.scale = scale;
  args.causal = c.causal;
  args.batch_rank = static_cast<uint8_t>(c.batch.size());
  args.mask = code;
  EXPECT_TRUE(run_kernel(kernel, serialise(args), operands, sizes, workers));

  // Roundings of the arithmetic, and of the result's dtype. Masks are added to f32 scores (f64 for f64).
  const double unit = std::ldexp(1, c.type == DType::f64 ? -53 : -24);
  const double store = std::ldexp(1, c.type == DType::f64 ? -53 : c.type == DType::f16 ? -11 : c.type == DType::bf16 ? -8 : -24);
  const std::vector<double> queries = q.values(), keys = k.values(), values = v.values(), masked = mask.values(), found = out.values();
  int wrong = 0;
  for (size_t row = 0; row < found.size() / static_cast<size_t>(c.e); ++row) {
    auto of = [&](const std::vector<double>& m, int64_t i, int64_t width, int64_t column) { return m[static_cast<size_t>(i * width + column)]; };
    const auto query = static_cast<int64_t>(row);
    const int64_t s = query % c.s, first = query / c.s * c.t;  // key of the batch element
    std::vector<double> p(static_cast<size_t>(c.t));
    double largest = -INFINITY, total = 0, score_error = 0;
    for (int64_t t = 0; t < c.t; ++t) {
      double x = 0, absolute = 0;
      for (int64_t d = 0; d < c.d; ++d) {
        double product = of(queries, query, c.d, d) * of(keys, first + t, c.d, d) * static_cast<double>(scale);
        x += product;
        absolute += std::abs(product);
      }
      if (c.mask != Mask::none) x += of(masked, query, c.t, t);
      if (c.causal && t > s) x = -INFINITY;
      p[static_cast<size_t>(t)] = x;
      largest = std::max(largest, x);
      score_error = std::max(score_error, (static_cast<double>(c.d) + 4) * unit * (absolute + 2));
    }
    for (double& x : p) total += x = largest == -INFINITY ? 0 : std::exp(x - largest);
    for (int64_t e = 0; e < c.e; ++e) {
      double want = 0, absolute = 0;
      for (int64_t t = 0; t < c.t && total > 0; ++t) {
        double term = p[static_cast<size_t>(t)] / total * of(values, first + t, c.e, e);
        want += term;
        absolute += std::abs(term);
      }
      // Numerator and denominator each have the error of the scores, the exponential and the sum.
      double bound = absolute * 2 * (2 * score_error + (static_cast<double>(c.t) + 16) * unit) + std::abs(want) * store + 1e-40;
      if (c.type == DType::f16) bound += std::ldexp(1, -25);
      double is = of(found, query, c.e, e);
      if (!(std::abs(is - want) <= bound) && ++wrong < 4) ADD_FAILURE() << "query " << query << " element " << e << ": " << is << ", not " << want << " (bound " << bound << ")";
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(out.untouched_outside());
}

// Both kernels compute every case.
void check(const Case& c, Workers& workers) {
  for (std::string_view kernel : {"attention", "attention_queries"}) check(c, workers, kernel);
}

TEST(attention, every_small_size) {
  for (int64_t s : {0, 1, 2, 7, 17}) {
    for (int64_t t : {0, 1, 3, 4, 16, 33}) {
      for (int64_t d : {0, 1, 5, 16}) {
        for (int64_t e : {1, 8, 17}) {
          for (bool causal : {false, true}) check({.s = s, .t = t, .d = d, .e = e, .causal = causal}, inline_workers());
        }
      }
    }
  }
}

// Rows of keys with gaps are the other kernel's, and so are sums in one order.
TEST(attention_queries, refused) {
  TestTensor q(DType::f32, {2, 5}), k(DType::f32, {6, 5}), gaps(DType::f32, {6, 5}, {1, 0}), v(DType::f32, {6, 7}), out(DType::f32, {2, 7});
  auto runs = [&](TestTensor& keys, bool in_order) {
    AttentionArgs args;
    args.in_order = in_order;
    return run_kernel("attention_queries", serialise(args), {&q, &keys, &v, &out}, {2, 6, 5, 7}, inline_workers());
  };
  EXPECT_TRUE(runs(k, false));
  EXPECT_FALSE(runs(gaps, false));
  EXPECT_FALSE(runs(k, true));
}

// More than a block of queries and keys: larger scores rescale earlier sums.
TEST(attention, sizes_beyond_the_blocks) {
  for (Workers* workers : {&inline_workers(), &three()}) {
    for (bool causal : {false, true}) {
      check({.s = 100, .t = 1100, .d = 20, .e = 24, .causal = causal}, *workers);
      check({.s = 1, .t = 2100, .d = 64, .e = 64, .causal = causal}, *workers);
      check({.s = 200, .t = 200, .d = 33, .e = 65, .batch = {2}, .causal = causal}, *workers);
      check({.s = 90, .t = 600, .d = 300, .e = 8, .causal = causal}, *workers);
    }
  }
}

TEST(attention, masks) {
  for (Mask mask : {Mask::padding, Mask::full, Mask::blocked}) {
    for (bool causal : {false, true}) {
      check({.s = 9, .t = 20, .d = 8, .e = 8, .batch = {2, 3}, .causal = causal, .mask = mask}, inline_workers());
      check({.s = 100, .t = 700, .d = 8, .e = 16, .causal = causal, .mask = mask}, three());
      check({.s = 5, .t = 1, .d = 3, .e = 2, .causal = causal, .mask = mask}, inline_workers());
    }
  }
}

TEST(attention, heads_of_a_projection_and_shared_keys) {
  for (Workers* workers : {&inline_workers(), &three()}) {
    check({.s = 40, .t = 40, .d = 16, .e = 16, .batch = {2, 4}, .heads_inside = true}, *workers);
    check({.s = 7, .t = 50, .d = 16, .e = 20, .batch = {2, 4}, .causal = true, .kv_broadcast = {1}}, *workers);
    check({.s = 7, .t = 50, .d = 16, .e = 20, .batch = {3, 2}, .mask = Mask::padding, .kv_broadcast = {0, 1}}, *workers);
    check({.s = 1, .t = 5, .d = 4, .e = 4, .batch = {0}}, *workers);
    check({.s = 1, .t = 5, .d = 4, .e = 4, .batch = {19}}, *workers);
  }
}

TEST(attention, dtypes) {
  for (DType type : {DType::f16, DType::bf16, DType::f64}) {
    for (bool causal : {false, true}) {
      check({.s = 2, .t = 1100, .d = 70, .e = 65, .batch = {2}, .type = type, .causal = causal}, three());
      check({.s = 101, .t = 530, .d = 12, .e = 40, .type = type, .causal = causal, .mask = Mask::padding}, three());
      check({.s = 10, .t = 37, .d = 16, .e = 9, .batch = {2}, .type = type, .causal = causal}, inline_workers());
      check({.s = 10, .t = 37, .d = 16, .e = 9, .batch = {2}, .type = type, .causal = causal, .mask = Mask::full, .heads_inside = true}, three());
    }
  }
}

// Scores of a thousand: without subtracting the maximum, every exponential would be infinite.
TEST(attention, large_scores) {
  check({.s = 20, .t = 700, .d = 16, .e = 8, .size = 200}, inline_workers());
  check({.s = 20, .t = 20, .d = 16, .e = 8, .causal = true, .size = 200}, inline_workers());
}

TEST(attention, operands_that_do_not_fit_are_refused) {
  TestTensor q(DType::f32, {4, 5}), k(DType::f32, {6, 5}), v(DType::f32, {6, 7}), out(DType::f32, {4, 7}), half(DType::f16, {6, 5}), ints(DType::i32, {4, 4});
  auto code_of = [&](std::vector<TestTensor*> operands, std::vector<int64_t> sizes) {
    try {
      run_kernel("attention", serialise(AttentionArgs{}), operands, sizes, inline_workers());
    } catch (const Error& e) {
      return e.code;
    }
    return Code::ok;
  };
  q.each([&](const auto& at) { q.put(at, 0); });
  k.each([&](const auto& at) { k.put(at, 0); });
  v.each([&](const auto& at) { v.put(at, 0); });
  EXPECT_EQ(code_of({&q, &k, &v, &out}, {4, 6, 5, 7}), Code::ok);
  EXPECT_EQ(code_of({&q, &k, &v, &out}, {4, 5, 5, 7}), Code::format);
  EXPECT_EQ(code_of({&q, &k, &v, &out}, {4, 6, 5}), Code::format);
  EXPECT_EQ(code_of({&q, &half, &v, &out}, {4, 6, 5, 7}), Code::format);
  EXPECT_EQ(code_of({&ints, &ints, &ints, &ints}, {4, 4, 4, 4}), Code::format);
  EXPECT_EQ(code_of({&q, &k, &v}, {4, 6, 5, 7}), Code::format);
}

TEST(attention, arguments_cut_off_or_damaged_are_refused) {
  AttentionArgs args;
  args.scale = 0.5f;
  args.causal = true;
  args.batch_rank = 3;
  std::vector<std::byte> bytes = serialise(args);
  AttentionArgs back = parse_attention(bytes);
  EXPECT_TRUE(back.causal && back.scale == 0.5f && back.batch_rank == 3 && back.mask.empty());
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_THROW(parse_attention(std::span(bytes).first(n)), Error);
  bytes[3] = std::byte{1};  // a mask follows
  EXPECT_THROW(parse_attention(bytes), Error);
}

}  // namespace
}  // namespace ingot::kernels
