// A commit recomputes what depends on the weights that were set, and shares the rest with the previous set.
#include "runtime/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/error.h"
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

float run(Session& session, size_t batch = 4) {
  std::vector<float> x(batch * side, 1), y(batch * side);
  const int64_t dims[] = {static_cast<int64_t>(batch), side};
  const HostTensor in{x.data(), ir::DType::f32, 2, dims, nullptr}, out{y.data(), ir::DType::f32, 2, dims, nullptr};
  session.run({&in, 1}, {&out, 1});
  return y[0];
}

void set(Weights& weights, size_t i, float factor) {
  const std::vector<float> values = identity(factor);
  weights.set("w" + std::to_string(i), values.data(), values.size() * 4, true);
}

// Bytes that are taken.
class Bytes final : public Allocator {
 public:
  size_t now = 0;
  void* allocate(size_t bytes) override {
    void* memory = system_allocator().allocate(bytes);
    now += bytes;
    return memory;
  }
  void release(void* memory, size_t bytes) noexcept override {
    now -= bytes;
    system_allocator().release(memory, bytes);
  }
};

size_t shared(const Weights::Set& a, const Weights::Set& b) {
  size_t same = 0;
  for (size_t i = 0; i < a.memory.derived.size(); ++i) same += a.memory.derived[i] == b.memory.derived[i];
  return same;
}

TEST(Weights, OneThatChangesIsMadeAnewAlone) {
  auto weights = std::make_shared<Weights>(chain(), 1);
  Session session(weights, 0, {1});
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
  Session later(weights, 0, {1});
  EXPECT_EQ(run(later), 7);
}

TEST(Weights, ManyThatChangeAreMadeInOneBlock) {
  auto weights = std::make_shared<Weights>(chain(), 1);
  Session session(weights, 0, {1});
  auto before = weights->current();
  for (size_t i = 0; i < count; ++i) set(*weights, i, i < 2 ? 3 : 1);
  weights->commit(1);
  EXPECT_EQ(shared(*before, *weights->current()), 0u);
  EXPECT_NE(before->home, weights->current()->home);
  EXPECT_EQ(run(session), 9);
}

TEST(Weights, ACommitOfNothingTakesBorrowedMemoryAnew) {
  auto weights = std::make_shared<Weights>(chain(), 1);
  Session session(weights, 0, {1});
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
  Session session(weights, 0, {1});
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
      Session session(weights, 0, {1});
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

// A commit gives the steps other addresses, and nothing else.
TEST(Weights, ACommitKeepsWhatIsResolved) {
  auto weights = std::make_shared<Weights>(chain(), 1);
  Session session(weights, 0, {1});
  for (size_t batch : {4, 7}) EXPECT_EQ(run(session, batch), 1);
  const uint64_t number = weights->current()->memory.number;
  for (int round = 0; round < 4; ++round) {
    const auto factor = static_cast<float>(2 + round);
    set(*weights, 5, factor);
    if (round == 3) set(*weights, 6, 2);
    if (round == 2) weights->commit(1), weights->commit(1);  // of all
    weights->commit(1);
    for (size_t batch : {4, 7}) EXPECT_EQ(run(session, batch), round == 3 ? 2 * factor : factor);
  }
  EXPECT_EQ(session.resolutions(), 2u);
  EXPECT_NE(weights->current()->memory.number, number);
}

TEST(Weights, ForksShareWhatIsEqual) {
  Bytes memory;
  auto first = std::make_shared<Weights>(chain(), 1, memory);
  const size_t all = memory.now;
  auto second = first->fork();
  EXPECT_EQ(memory.now, all);
  EXPECT_EQ(second->current(), first->current());
  // Its own values, and what is made of them.
  const size_t value = side * side * 4, made = first->current()->memory.derived_bytes[0];
  EXPECT_LT(value + 2 * made, all / 8);
  set(*second, 3, 5);
  second->commit(1);
  EXPECT_LE(memory.now, all + value + made + 128);
  EXPECT_EQ(shared(*first->current(), *second->current()), count - 1);
  Session one(first, 0, {1}), other(second, 0, {1});
  EXPECT_EQ(run(one), 1);
  EXPECT_EQ(run(other), 5);
  // Also where most of them change.
  for (size_t i = 0; i < count - 2; ++i) set(*second, i, i < 2 ? 3 : 1);
  second->commit(1);
  EXPECT_EQ(run(other), 9);
  EXPECT_EQ(shared(*first->current(), *second->current()), 2u);
  for (size_t i = 0; i < count; ++i) set(*second, i, i < 3 ? 3 : 1);
  second->commit(1);
  EXPECT_EQ(run(other), 27);
  EXPECT_NE(second->current()->home, first->current()->home);
  EXPECT_EQ(run(one), 1);
}

TEST(Weights, AForkOutlivesWhatItIsAForkOf) {
  Bytes memory;
  std::shared_ptr<Weights> second;
  {
    Weights first(chain(), 1, memory);
    set(first, 2, 7);
    first.commit(1);
    set(first, 2, 100);  // not committed, so not the fork's
    second = first.fork();
  }
  Session session(second, 0, {1});
  EXPECT_EQ(run(session), 7);
  set(*second, 4, 2);
  second->commit(1);
  EXPECT_EQ(run(session), 14);
  EXPECT_GT(memory.now, 0u);
  session.set_weights(second->fork());
  second.reset();
  EXPECT_EQ(run(session), 14);
}

TEST(Weights, ASessionGoesFromSetToSet) {
  auto first = std::make_shared<Weights>(chain(), 1), second = first->fork(), third = second->fork(), foreign = std::make_shared<Weights>(chain(), 1);
  set(*second, 3, 5);
  second->commit(1);
  Session session(first, 0, {1});
  for (int round = 0; round < 3; ++round) {
    session.set_weights(first);
    EXPECT_EQ(run(session), 1);
    session.set_weights(second);
    EXPECT_EQ(run(session), 5 + round);
    session.set_weights(third);
    EXPECT_EQ(run(session), 1);
    set(*second, 3, static_cast<float>(6 + round));
    second->commit(1);
  }
  EXPECT_EQ(session.resolutions(), 1u);
  try {
    session.set_weights(foreign);
    FAIL() << "taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::invalid_input);
    EXPECT_EQ(e.message, "these weights are not a fork of the session's");
    EXPECT_NE(e.remedy, "");
  }
  EXPECT_EQ(run(session), 1);
}

// Forks that are made, changed and given up in any order have the answers of their own values.
TEST(Weights, AnyOrderOfForks) {
  struct One {
    std::shared_ptr<Weights> weights;
    std::vector<float> factors;
  };
  Bytes memory;
  size_t alone = 0;
  {
    std::vector<One> all{{std::make_shared<Weights>(chain(), 1, memory), std::vector<float>(count, 1)}};
    alone = memory.now;
    Session session(all[0].weights, 0, {1});
    uint32_t random = 1;
    auto below = [&](size_t n) { return (random = random * 1664525 + 1013904223) / 65536 % n; };
    for (int round = 0; round < 300; ++round) {
      One& one = all[below(all.size())];
      if (below(4) == 0 && all.size() < 4) {
        One made{one.weights->fork(), one.factors};
        all.push_back(std::move(made));
      } else if (below(6) == 0 && all.size() > 1) {
        all.erase(all.begin() + (&one - all.data()));
      } else {
        for (size_t many = below(8) == 0 ? count : 1 + below(3); many > 0; --many) {
          const size_t i = below(count);
          one.factors[i] = static_cast<float>(1 + below(2));
          set(*one.weights, i, one.factors[i]);
        }
        one.weights->commit(1);
      }
      for (const One& each : all) {
        float expected = 1;
        for (float f : each.factors) expected *= f;
        session.set_weights(each.weights);
        ASSERT_EQ(run(session), expected) << round;
      }
    }
    EXPECT_EQ(session.resolutions(), 1u);
  }
  EXPECT_GT(alone, 0u);
  EXPECT_EQ(memory.now, 0u);
}

// Two versions change while sessions go from one to the other: a run sees one commit of one of them.
TEST(Weights, ForksThatChangeWhileSessionsSwitch) {
  auto first = std::make_shared<Weights>(chain(), 1), second = first->fork();
  set(*second, 0, 5);
  second->commit(1);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0}, runs{0}, resolved{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      Session session(first, 0, {1});
      for (int i = t; !stop; ++i) {
        const bool other = i % 2 == 1;
        session.set_weights(other ? second : first);
        const float y = run(session) / (other ? 5.0f : 1.0f);
        wrong += y != 6 && y != 1;
        ++runs;
      }
      resolved += static_cast<int>(session.resolutions());
    });
  }
  std::thread changes([&] {
    for (int i = 0; i < 100 || runs < 100; ++i) {
      set(*second, 4, i % 2 == 0 ? 2 : 0.5f);
      set(*second, 11, i % 2 == 0 ? 3 : 2);
      second->commit(1);
    }
    stop = true;
  });
  for (int i = 0; !stop; ++i) {
    set(*first, 4, i % 2 == 0 ? 2 : 0.5f);
    set(*first, 11, i % 2 == 0 ? 3 : 2);
    first->commit(1);
  }
  changes.join();
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(resolved, 3);
}

// y = x @ w0 @ w1, of matrices that are large enough to be shared; `more`: with a third one, as another graph of the same model has.
std::shared_ptr<const plan::Plan> large_chain(bool more) {
  constexpr size_t n = 160;
  std::string text = fmt::format("ingot-graph 1\nsymbol B 1 4 64\n%0 = input() {{name=\"x\"}} : f32[B, {}]\n", n);
  size_t last = 0;
  for (size_t i = 0; i < (more ? 3 : 2); ++i) {
    text += fmt::format("%{} = weight() {{name=\"w{}\"}} : f32[{}, {}]\n%{} = matmul(%{}, %{}) {{}} : f32[B, {}]\n", 2 * i + 1, i, n, n, 2 * i + 2, last, 2 * i + 1, n);
    last = 2 * i + 2;
  }
  ir::Graph g = ir::parse(text + fmt::format("output %{} \"y\" []\n", last));
  for (size_t i = 0; i < g.weights.size(); ++i) {
    std::vector<float> values(n * n);
    for (size_t k = 0; k < n; ++k) values[k * n + k] = static_cast<float>(i + 2);
    keep_values(g.weights[i], values);
  }
  return std::make_shared<plan::Plan>(compile::compile(g, {}));
}

float run_large(Session& session) {
  std::vector<float> x(4 * 160, 1), y(4 * 160);
  const int64_t dims[] = {4, 160};
  const HostTensor in{x.data(), ir::DType::f32, 2, dims, nullptr}, out{y.data(), ir::DType::f32, 2, dims, nullptr};
  session.run({&in, 1}, {&out, 1});
  return y[0];
}

void set_large(Weights& weights, std::string_view name, float factor) {
  std::vector<float> values(160 * 160);
  for (size_t k = 0; k < 160; ++k) values[k * 161] = factor;
  weights.set(name, values.data(), values.size() * 4, true);
  weights.commit(1);
}

TEST(Weights, EnginesOfTheSameWeightsHaveThemPreparedOnce) {
  Bytes bytes;
  auto first = std::make_shared<Weights>(large_chain(false), 1, bytes);
  const size_t one = bytes.now;
  ASSERT_GE(one, 2 * 160 * 160 * sizeof(float));
  auto second = std::make_shared<Weights>(large_chain(false), 1, bytes);
  EXPECT_EQ(bytes.now, one);
  auto third = std::make_shared<Weights>(large_chain(true), 1, bytes);
  EXPECT_LT(bytes.now, one + one * 2 / 3);
  Session a(first, 0, {1}), b(second, 0, {1}), c(third, 0, {1});
  EXPECT_EQ(run_large(a), 6);
  EXPECT_EQ(run_large(b), 6);
  EXPECT_EQ(run_large(c), 24);
  // Each has its own values from its next commit on, and its former ones again after another.
  set_large(*first, "w0", 5);
  EXPECT_EQ(run_large(a), 15);
  EXPECT_EQ(run_large(b), 6);
  EXPECT_EQ(run_large(c), 24);
  set_large(*second, "w1", 7);
  set_large(*third, "w0", 5);
  EXPECT_EQ(run_large(a), 15);
  EXPECT_EQ(run_large(b), 14);
  EXPECT_EQ(run_large(c), 60);
  set_large(*first, "w0", 2);
  EXPECT_EQ(run_large(a), 6);
  first.reset();
  EXPECT_EQ(run_large(b), 14);
  EXPECT_EQ(run_large(c), 60);
}

TEST(Weights, EnginesThatComeAndGoAtOnceShareValues) {
  const auto plan = large_chain(true);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        auto weights = std::make_shared<Weights>(plan, 1);
        Session session(weights, 0, {1});
        wrong += run_large(session) != 24;
        set_large(*weights, "w0", static_cast<float>(3 + (i + t) % 3));
        wrong += run_large(session) != 12.0f * static_cast<float>(3 + (i + t) % 3);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace ingot::runtime
