// A commit redoes what depends on the weights that were set, and shares the rest with the set before.
#include "runtime/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "compile/compile.h"
#include "runtime/session.h"
#include "runtime/session_test.h"

namespace ingot::runtime {
namespace {

constexpr size_t side = 24, count = 20;

// `factor` times the identity.
std::vector<float> identity(float factor) {
  std::vector<float> values(side * side);
  for (size_t k = 0; k < side; ++k) values[k * side + k] = factor;
  return values;
}

// y = relu(x @ w0) @ w1 ... and so on: prepare packs each weight.
std::shared_ptr<const plan::Plan> chain() {
  std::string text = fmt::format("ingot-graph 1\nsymbol B 1 4 64\n%0 = input() {{name=\"x\"}} : f32[B, {}]\n", side);
  size_t last = 0, next = 1;
  for (size_t i = 0; i < count; ++i, next += 2) {
    text += fmt::format("%{} = weight() {{name=\"w{}\"}} : f32[{}, {}]\n%{} = matmul(%{}, %{}) {{}} : f32[B, {}]\n", next, i, side, side, next + 1, last, next, side);
    last = next + 1;
  }
  ir::Graph g = ir::parse(text + fmt::format("output %{} \"y\" []\n", last));
  for (ir::Weight& w : g.weights) {
    keep_values(w, identity(1));
  }
  return std::make_shared<plan::Plan>(compile::compile(g, {}));
}

float run(Session& session) {
  std::vector<float> x(4 * side, 1), y(4 * side);
  const int64_t dims[] = {4, side};
  const HostTensor in{x.data(), ir::DType::f32, 2, dims, nullptr}, out{y.data(), ir::DType::f32, 2, dims, nullptr};
  session.run({&in, 1}, {&out, 1});
  return y[0];
}

void set(Weights& weights, size_t i, float factor) {
  const std::vector<float> values = identity(factor);
  weights.set("w" + std::to_string(i), values.data(), values.size() * 4, true);
}

size_t shared(const Weights::Set& a, const Weights::Set& b) {
  size_t same = 0;
  for (size_t i = 0; i < a.memory.derived.size(); ++i) same += a.memory.derived[i] == b.memory.derived[i];
  return same;
}

TEST(Weights, OneThatChangesIsMadeAnewAlone) {
  auto weights = std::make_shared<Weights>(chain(), 1);
  Session session(weights, 0, 1);
  auto before = weights->current();
  ASSERT_EQ(before->memory.derived.size(), count);
  EXPECT_EQ(run(session), 1);
  set(*weights, 3, 5);
  weights->commit(1);
  EXPECT_EQ(shared(*before, *weights->current()), count - 1);
  EXPECT_EQ(run(session), 5);
  // What it was is still there for whoever holds it; when nobody does, its place is taken again.
  const std::byte* place = nullptr;
  for (size_t i = 0; i < count; ++i) place = before->memory.derived[i] != weights->current()->memory.derived[i] ? before->memory.derived[i] : place;
  before = weights->current();
  set(*weights, 3, 7);
  weights->commit(1);
  EXPECT_EQ(run(session), 7);
  EXPECT_EQ(shared(*before, *weights->current()), count - 1);
  EXPECT_TRUE(std::find(weights->current()->memory.derived.begin(), weights->current()->memory.derived.end(), place) != weights->current()->memory.derived.end());
  Session later(weights, 0, 1);
  EXPECT_EQ(run(later), 7);
}

TEST(Weights, ManyThatChangeAreMadeInOneBlock) {
  auto weights = std::make_shared<Weights>(chain(), 1);
  Session session(weights, 0, 1);
  auto before = weights->current();
  for (size_t i = 0; i < count; ++i) set(*weights, i, i < 2 ? 3 : 1);
  weights->commit(1);
  EXPECT_EQ(shared(*before, *weights->current()), 0u);
  EXPECT_NE(before->home, weights->current()->home);
  EXPECT_EQ(run(session), 9);
}

TEST(Weights, ACommitOfNothingTakesBorrowedMemoryAnew) {
  auto weights = std::make_shared<Weights>(chain(), 1);
  Session session(weights, 0, 1);
  std::vector<float> mine(side * side);
  for (float factor : {2.0f, 3.0f}) {
    for (size_t k = 0; k < side; ++k) mine[k * side + k] = factor;
    if (factor == 2) weights->set("w0", mine.data(), mine.size() * 4, false);
    weights->commit(1);
    EXPECT_EQ(run(session), factor);
  }
}

// Whatever is changed when, the answers are those of weights that were made with these values at once.
TEST(Weights, AnyOrderOfChanges) {
  auto plan = chain();
  auto weights = std::make_shared<Weights>(plan, 1);
  Session session(weights, 0, 1);
  std::vector<float> factors(count, 1);
  std::vector<std::shared_ptr<const Weights::Set>> held;
  uint32_t random = 1;
  for (int round = 0; round < 60; ++round) {
    for (uint32_t many = 1 + round % 4; many > 0; --many) {
      random = random * 1664525 + 1013904223;
      const size_t i = (random >> 16) % count;
      factors[i] = static_cast<float>(1 + (random >> 8) % 2);
      set(*weights, i, factors[i]);
    }
    weights->commit(1);
    float expected = 1;
    for (float f : factors) expected *= f;
    ASSERT_EQ(run(session), expected) << round;
    if (round % 3 == 0) held.push_back(weights->current());
    if (held.size() > 2) held.erase(held.begin());
  }
}

// Runs see the weights of one commit: two weights that change together have a product of 6 or 1.
TEST(Weights, AChangeIsNeverSeenHalf) {
  auto weights = std::make_shared<Weights>(chain(), 1);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0}, runs{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      Session session(weights, 0, 1);
      while (!stop) {
        const float y = run(session);
        wrong += y != 6 && y != 1;
        ++runs;
      }
    });
  }
  for (int i = 0; i < 100 || runs < 100; ++i) {
    set(*weights, 4, i % 2 == 0 ? 2 : 0.5f);
    set(*weights, 11, i % 2 == 0 ? 3 : 2);
    weights->commit(1);
  }
  stop = true;
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace ingot::runtime
