// 64 sessions of one plan side by side, sizes changing from run to run, weights swapped under them, states handed from one to another: every answer is right.
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ingot/ingot.hpp"

namespace {

constexpr int64_t largest = 64;  // enough for a product that threads share

// The answers for a batch of the first `batch` rows of `in`.
std::vector<float> run(ingot::Session& session, const std::vector<float>& in, int64_t batch) {
  std::vector<float> out(static_cast<size_t>(batch) * 4);
  const ingot::Tensor x{std::span(in).first(static_cast<size_t>(batch) * 16), {batch, 16}}, y{std::span(out), {batch, 4}};
  session.run({&x, 1}, {&y, 1});
  return out;
}

TEST(Threads, SessionsSideBySide) {
  ingot::Model model = ingot::Model::open(INGOT_TEST_MODEL);
  model.set_dim("x", 0, 1, 4, largest);
  ingot::Plan plan = ingot::compile(model);
  ingot::Weights weights(plan);
  std::vector<float> in(largest * 16), bias(32, 0.25f);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i % 11) - 5;
  weights.set("l1.bias", std::span(bias));
  weights.commit();
  std::vector<std::vector<float>> expected(1);
  ingot::Session first(plan, weights);
  for (int64_t batch = 1; batch <= largest; ++batch) expected.push_back(run(first, in, batch));

  std::atomic<int> wrong{0}, running{64};
  std::vector<std::thread> threads;
  for (int t = 0; t < 64; ++t) {
    threads.emplace_back([&, t] {
      try {
        // Most work alone, some with a pool of their own.
        ingot::Session session(plan, weights, 0, ingot::Options().set("threads", t % 16 == 0 ? "3" : "1"));
        for (int64_t i = 0; i < 60; ++i) {
          int64_t batch = 1 + (i * 7 + t) % largest;
          wrong += run(session, in, batch) != expected[static_cast<size_t>(batch)];
        }
      } catch (const ingot::Error& e) {
        ADD_FAILURE() << e.what();
      }
      --running;
    });
  }
  // The same values again and again, so the answers stay.
  while (running > 0) {
    weights.set("l1.bias", std::span(bias));
    weights.commit();
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

// Two weights, each packed by prepare, change together while sessions run: a run sees both or none.
TEST(Threads, WeightsThatChangeTogether) {
  const ingot::Plan plan = ingot::compile(ingot::Model::open(INGOT_TEST_MODEL).set_dim("x", 0, 1, 4, largest));
  ingot::Weights weights(plan);
  std::vector<float> in(largest * 16);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i % 11) - 5;
  std::vector<std::vector<float>> l2, l3, expected;
  auto change = [&](size_t k) {
    weights.set("l2.weight", std::span(std::as_const(l2[k])));
    weights.set("l3.weight", std::span(std::as_const(l3[k])));
    weights.commit();
  };
  for (float k : {0.0f, 1.0f}) {
    l2.emplace_back(32 * 32, 0.01f + 0.02f * k);
    l3.emplace_back(4 * 32, 0.5f - k);
    change(l2.size() - 1);
    ingot::Session session(plan, weights);
    expected.push_back(run(session, in, 3));
  }
  ASSERT_NE(expected[0], expected[1]);
  std::atomic<int> wrong{0}, running{8};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      ingot::Session session(plan, weights, 0, ingot::Options().set("threads", "1"));
      for (int i = 0; i < 200; ++i) {
        const std::vector<float> out = run(session, in, 3);
        wrong += out != expected[0] && out != expected[1];
      }
      --running;
    });
  }
  for (size_t k = 0; running > 0; ++k) change(k % 2);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

constexpr int tokens = 12;  // of a sequence; the model's cache has room for 16

// What the decoder answers to token `n` of sequence `t`.
std::vector<float> step(ingot::Session& session, int t, int n) {
  const std::vector<int64_t> id{(t * 5 + n * 7) % 32};
  std::vector<float> out(32);
  const ingot::Tensor x{std::span(id), {1}}, y{std::span(out), {1, 32}};
  session.run({&x, 1}, {&y, 1});
  return out;
}

// Of sequences 0 to 63, by token.
std::vector<std::vector<std::vector<float>>> alone(const ingot::Plan& plan, const ingot::Weights& weights) {
  std::vector<std::vector<std::vector<float>>> out(64);
  for (int t = 0; t < 64; ++t) {
    ingot::Session session(plan, weights);
    for (int n = 0; n < tokens; ++n) out[static_cast<size_t>(t)].push_back(step(session, t, n));
  }
  return out;
}

TEST(Threads, SessionsWithAStateEach) {
  const ingot::Plan plan = ingot::compile(ingot::Model::open(INGOT_TEST_DECODER));
  ingot::Weights weights(plan);
  const auto expected = alone(plan, weights);
  const ingot::State prefix(plan, weights);
  std::vector<ingot::State> forks;
  for (int t = 0; t < 64; ++t) forks.push_back(prefix.fork());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 64; ++t) {
    threads.emplace_back([&, t] {
      ingot::Session session(plan, weights, 0, ingot::Options().set("threads", "1"));
      session.set_state(forks[static_cast<size_t>(t)]);
      for (int n = 0; n < tokens; ++n) wrong += step(session, t, n) != expected[static_cast<size_t>(t)][static_cast<size_t>(n)];
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  int64_t position = 0;
  prefix.read("position", std::span(&position, 1));
  EXPECT_EQ(position, 0);
}

// Four sessions serve all sequences, a token at a time; half of the sequences go on in a fork.
TEST(Threads, StatesHandedFromThreadToThread) {
  const ingot::Plan plan = ingot::compile(ingot::Model::open(INGOT_TEST_DECODER));
  ingot::Weights weights(plan);
  const auto expected = alone(plan, weights);
  struct Sequence {
    ingot::State state;
    int t, n;
  };
  std::mutex mutex;
  std::deque<Sequence> waiting;
  for (int t = 0; t < 64; ++t) waiting.push_back({ingot::State(plan, weights), t, 0});
  std::atomic<int> wrong{0}, done{0};
  std::vector<std::thread> threads;
  for (int worker = 0; worker < 4; ++worker) {
    threads.emplace_back([&] {
      ingot::Session session(plan, weights, 0, ingot::Options().set("threads", "1"));
      while (done < 64) {
        std::unique_lock lock(mutex);
        if (waiting.empty()) continue;
        Sequence s = std::move(waiting.front());
        waiting.pop_front();
        lock.unlock();
        session.set_state(s.state);
        wrong += step(session, s.t, s.n) != expected[static_cast<size_t>(s.t)][static_cast<size_t>(s.n)];
        if (s.n == tokens / 2 && s.t % 2 == 0) {
          ingot::State fork = s.state.fork();
          step(session, s.t + 1, s.n);  // another token, which the fork does not see
          s.state = std::move(fork);
        }
        if (++s.n == tokens) {
          ++done;
          continue;
        }
        lock.lock();
        waiting.push_back(std::move(s));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
