// 64 sessions of one plan side by side, sizes changing from run to run, weights swapped under them: every answer is right.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
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

}  // namespace
