// Attention over a block table, by sites that are written by hand: the same numbers as over contiguous keys and values.
#include "backend/compiler.h"
#include "backend/reference/step_test.h"
#include "base/error.h"

namespace ingot::backend::reference {
namespace {

using ir::DType;

struct Case {
  int64_t sequences = 2, heads = 3, s = 2, d = 4, e = 5;
  int64_t rows = 3, blocks_of_one = 2;  // of the cache
  bool causal = false, masked = false, one_head = false;
  std::vector<int64_t> filled = {};     // keys of each sequence; empty: all
};

// Blocks of sequences lie in the pool in another order, with unused ones between them.
int64_t block_of(const Case& c, int64_t sequence, int64_t number) { return 1 + 2 * ((number + 1) % c.blocks_of_one * c.sequences + sequence); }

Attention attributes_of(const Case& c) {
  Attention out{DType::f32, 0.5, c.causal, 2};
  out.s = c.s, out.t = c.rows * c.blocks_of_one, out.d = c.d, out.e = c.e;
  return out;
}

void check(const Case& c) {
  SCOPED_TRACE(fmt::format("{} sequences of {} blocks of {}{}{}", c.sequences, c.blocks_of_one, c.rows, c.causal ? ", causal" : "", c.masked ? ", masked" : ""));
  const int64_t t = c.rows * c.blocks_of_one, pool = 2 * c.sequences * c.blocks_of_one + 1;
  const std::vector<size_t> shared = c.one_head ? std::vector<size_t>{1} : std::vector<size_t>{};
  TestTensor q(DType::f32, {c.sequences, c.heads, c.s, c.d}), mask(DType::f32, {1, 1, c.s, t}, {}, {0, 1}), table(DType::i32, {c.sequences, c.blocks_of_one}),
      filled(DType::i64, {c.sequences});
  TestTensor k(DType::f32, {c.sequences, c.heads, t, c.d}, {}, shared), v(DType::f32, {c.sequences, c.heads, t, c.e}, {}, shared);
  TestTensor cached_k(DType::f32, {pool, c.heads, c.rows, c.d}, {}, shared), cached_v(DType::f32, {pool, c.heads, c.rows, c.e}, {}, shared);
  TestTensor expected(DType::f32, {c.sequences, c.heads, c.s, c.e}), y(DType::f32, {c.sequences, c.heads, c.s, c.e});
  uint32_t seed = 0;
  for (TestTensor* x : {&q, &k, &v, &mask}) kernels::fill_with_integers(*x, ++seed);
  for (int64_t n = 0; n < std::ssize(c.filled); ++n) filled.put({n}, static_cast<double>(c.filled[static_cast<size_t>(n)]));
  for (int64_t n = 0; n < c.sequences; ++n) {
    for (int64_t b = 0; b < c.blocks_of_one; ++b) table.put({n, b}, static_cast<double>(block_of(c, n, b)));
  }
  for (auto [from, to] : {std::pair(&k, &cached_k), std::pair(&v, &cached_v)}) {
    from->each([&, from = from, to = to](const std::vector<int64_t>& at) { to->put({block_of(c, at[0], at[2] / c.rows), at[1], at[2] % c.rows, at[3]}, from->get(at)); });
  }
  const FusedBody body = [&] {
    BodyBuilder b({c.sequences, c.heads, c.s}, {t});
    Instruction score{};
    score.kind = Instruction::Kind::accumulator;
    score.dtype = DType::f32;
    const Reg accumulator = b.push(score), more = b.load(DType::f32);
    b.store(DType::f32, b.map(ir::Op::add, DType::f32, {accumulator, more}));
    return b.body;
  }();
  for (const bool paged : {false, true}) {
    HandmadeStep step;
    step.site.kernel = attributes_of(c);
    step.add(Role::query, q).add(Role::key, paged ? cached_k : k).add(Role::value, paged ? cached_v : v);
    if (c.masked) {
      step.site.body = &body;
      step.add(Role::mask, mask);
    }
    if (paged) step.add(Role::block_table, table);
    if (!c.filled.empty()) step.add(Role::filled, filled);
    step.add(Role::output, paged ? y : expected);
    ASSERT_EQ(step.refusal(), "");
    step.run();
  }
  EXPECT_EQ(y.values(), expected.values());
  EXPECT_TRUE(y.untouched_outside());
}

TEST(ReferenceAttention, OverABlockTable) {
  check({});
  check({.causal = true});
  check({.masked = true});
  check({.rows = 1, .blocks_of_one = 6, .causal = true, .masked = true});
  check({.sequences = 1, .heads = 1, .rows = 16, .blocks_of_one = 1});
  check({.one_head = true});
  check({.filled = {1, 5}});
  check({.causal = true, .masked = true, .filled = {6, 2}});
}

TEST(ReferenceAttention, ABlockThatIsNotThereIsRefused) {
  TestTensor q(DType::f32, {1, 1, 1, 2}), k(DType::f32, {3, 1, 2, 2}), v(DType::f32, {3, 1, 2, 2}), table(DType::i64, {1, 1}), y(DType::f32, {1, 1, 1, 2});
  for (TestTensor* x : {&q, &k, &v}) kernels::fill_with_integers(*x, 1);
  auto run = [&](int64_t block) {
    table.put({0, 0}, static_cast<double>(block));
    HandmadeStep step;
    step.site.kernel = attributes_of({.s = 1, .d = 2, .e = 2, .rows = 2, .blocks_of_one = 1});
    step.add(Role::query, q).add(Role::key, k).add(Role::value, v).add(Role::block_table, table).add(Role::output, y);
    step.run();
  };
  for (int64_t block : {2, -3}) EXPECT_NO_THROW(run(block));
  for (int64_t block : {-4, 3}) EXPECT_THROW(run(block), Error);
}

// A cache for eight keys, of which each sequence has some, is like a cache for these; the CPU's kernel computes the same.
TEST(ReferenceAttention, OnlyTheKeysThatAreThere) {
  for (const bool causal : {false, true}) {
    for (const int64_t there : {0, 1, 3, 8}) {
      SCOPED_TRACE(fmt::format("{} keys{}", there, causal ? ", causal" : ""));
      TestTensor q(DType::f32, {1, 2, 3, 4}), k(DType::f32, {1, 2, 8, 4}), v(DType::f32, {1, 2, 8, 5}), filled(DType::i32, {1}), y(DType::f32, {1, 2, 3, 5}), of_cpu = y;
      uint32_t seed = 0;
      for (TestTensor* x : {&q, &k, &v}) kernels::fill_with_integers(*x, ++seed);
      filled.put({0}, static_cast<double>(there));
      for (const bool reference : {true, false}) {
        HandmadeStep step;
        step.site.kernel = attributes_of({.sequences = 1, .heads = 2, .s = 3, .rows = 8, .blocks_of_one = 1, .causal = causal});
        step.add(Role::query, q).add(Role::key, k).add(Role::value, v).add(Role::filled, filled).add(Role::output, reference ? y : of_cpu);
        step.run(reference ? target : Target(), reference ? "reference" : "cpu");
      }
      // By the definition, in double.
      y.each([&](const std::vector<int64_t>& at) {
        const int64_t seen = causal ? std::min(there, there - 3 + at[2] + 1) : there;
        double total = 0, sum = 0;
        for (int64_t t = 0; t < seen; ++t) {
          double score = 0;
          for (int64_t d = 0; d < 4; ++d) score += q.get({0, at[1], at[2], d}) * k.get({0, at[1], t, d});
          const double e = std::exp(0.5 * score);
          total += e;
          sum += e * v.get({0, at[1], t, at[3]});
        }
        const double want = total == 0 ? 0 : sum / total;
        EXPECT_NEAR(y.get(at), want, 1e-5);
        EXPECT_NEAR(of_cpu.get(at), want, 1e-5);
      });
    }
  }
}

TEST(ReferenceAttention, MoreKeysThanThereIsRoomForAreRefused) {
  TestTensor q(DType::f32, {1, 1, 1, 2}), k(DType::f32, {1, 1, 4, 2}), filled(DType::i64, {1}), y(DType::f32, {1, 1, 1, 2});
  for (TestTensor* x : {&q, &k}) kernels::fill_with_integers(*x, 1);
  for (const auto& [of, device] : {std::pair(target, "reference"), std::pair(Target(), "cpu")}) {
    auto run = [&, of = of, device = device](int64_t keys) {
      filled.put({0}, static_cast<double>(keys));
      HandmadeStep step;
      step.site.kernel = attributes_of({.sequences = 1, .heads = 1, .s = 1, .d = 2, .e = 2, .rows = 4, .blocks_of_one = 1});
      step.add(Role::query, q).add(Role::key, k).add(Role::value, k).add(Role::filled, filled).add(Role::output, y);
      step.run(of, device);
    };
    EXPECT_NO_THROW(run(4));
    for (int64_t keys : {-1, 5}) EXPECT_THROW(run(keys), Error);
  }
}

// Other backends say that they cannot.
TEST(ReferenceAttention, OthersRefuseABlockTable) {
  TestTensor q(DType::f16, {1, 1, 1, 8}), k(DType::f16, {3, 1, 2, 8}), table(DType::i64, {1, 1}), y(DType::f16, {1, 1, 1, 8});
  HandmadeStep step;
  Attention attributes{DType::f16, 1, false, 2};
  attributes.d = attributes.e = 8;
  step.site.kernel = attributes;
  step.add(Role::query, q).add(Role::key, k).add(Role::value, k).add(Role::block_table, table).add(Role::output, y);
  for (const Target& other : {Target(), cuda_target(90)}) EXPECT_TRUE(compiler_for(other).offers(step.site, other, {}).offers.empty()) << other.text();
}

}  // namespace
}  // namespace ingot::backend::reference
