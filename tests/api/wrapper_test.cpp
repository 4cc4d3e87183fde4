// Weights and states through ingot.hpp: who owns what, what is shared, and what is thrown.
#include <gtest/gtest.h>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "ingot/ingot.hpp"

namespace {

const std::vector<float> x(3 * 16, 0.5f);

std::vector<float> run(ingot::Session& session) {
  const ingot::Tensor in{std::span(x), {3, 16}};
  const ingot::Tensor out = session.run({in})[0];
  const std::span<float> values = out.values<float>();
  return {values.begin(), values.end()};
}

TEST(Wrapper, WeightsSideBySide) {
  const ingot::Plan plan = ingot::compile(ingot::Model::open(INGOT_TEST_MODEL).set_dim("x", 0, 1, 4, 8));
  ingot::Weights first(plan);
  ingot::Session session(plan, first);
  const std::vector<float> base = run(session), zeros(4 * 32), bias{1, 2, 3, 4};
  std::optional<ingot::Weights> second = first.fork();
  second->set("l3.weight", std::span(zeros));
  second->set("l3.bias", std::span(bias));
  second->commit();
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(run(session), base);
    session.set_weights(*second);
    EXPECT_EQ(run(session), (std::vector<float>{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}));
    session.set_weights(first);
  }
  // A session keeps its weights, and they what they share.
  session.set_weights(*second);
  second.reset();
  first = ingot::Weights(plan);
  EXPECT_EQ(run(session)[3], 4);
  try {
    session.set_weights(first);
    FAIL() << "taken";
  } catch (const ingot::Error& e) {
    EXPECT_EQ(e.code(), INGOT_INVALID_INPUT);
    EXPECT_EQ(e.message(), "these weights are not a fork of the session's");
  }
}

TEST(Wrapper, WeightsThatAreBorrowed) {
  const ingot::Plan plan = ingot::compile(ingot::Model::open(INGOT_TEST_MODEL));
  ingot::Weights weights(plan);
  EXPECT_EQ(weights.device(), -1);
  EXPECT_EQ(weights.memory().limit, 0u);  // of a GPU's memory, which there is none of
  EXPECT_THROW(weights.set_memory(1000), ingot::Error);
  ingot::Session session(plan, weights);
  std::vector<float> zeros(32 * 4), bias{1, 2, 3, 4};
  weights.borrow("l3.weight", ingot::Tensor(INGOT_FLOAT32, zeros.data(), {4, 32}, {1, 4}));
  weights.borrow("l3.bias", {std::span(bias), {4}});
  weights.commit();
  EXPECT_EQ(run(session)[2], 3);
  bias[2] = 5;
  weights.commit();
  EXPECT_EQ(run(session)[2], 5);
}

int64_t position(const ingot::State& state) {
  int64_t value = 0;
  state.read("position", std::span(&value, 1));
  return value;
}

std::vector<float> step(ingot::Session& session, int64_t id) {
  const ingot::Tensor in{std::span(&id, 1), {1}};
  const ingot::Tensor out = session.run({in})[0];
  const std::span<float> values = out.values<float>();
  return {values.begin(), values.end()};
}

// Signatures that are good: tests/files/test_signed.py.
TEST(Wrapper, OnlySignedPlans) {
  const std::string path = testing::TempDir() + "ingot_wrapper_unsigned.ingot", key = "ed25519:" + std::string(64, '0');
  ingot::compile(ingot::Model::open(INGOT_TEST_MODEL)).save(path);
  for (const auto& [keys, code] : {std::pair<std::vector<std::string>, ingot_status>{{key}, INGOT_FORMAT}, {{}, INGOT_INVALID_INPUT}}) {
    try {
      ingot::Plan::load_signed(path, keys);
      FAIL() << "it was taken";
    } catch (const ingot::Error& e) {
      EXPECT_EQ(e.code(), code) << e.what();
    }
  }
  std::remove(path.c_str());
}

TEST(Wrapper, StepsAreWatched) {
  struct Seen {
    int wanted = 1, open = 0;
    std::vector<std::string> begun;
  } seen;
  ingot_step_watch watch{};
  watch.user = &seen;
  watch.wanted = [](void* user) { return static_cast<Seen*>(user)->wanted; };
  watch.begin = [](const char* label, const char* kernel, void* user) -> void* {
    auto* s = static_cast<Seen*>(user);
    EXPECT_EQ(s->open++ == 0, *kernel == '\0') << label;  // the whole run has no kernel, the steps within it have one
    s->begun.emplace_back(label);
    return user;
  };
  watch.end = [](void* begun, void* user) {
    EXPECT_EQ(begun, user);
    --static_cast<Seen*>(user)->open;
  };
  const ingot::Plan plan = ingot::compile(ingot::Model::open(INGOT_TEST_MODEL));
  ingot::Weights weights(plan);
  ingot::Session session(plan, weights);
  run(session);  // prepares weights
  ingot::set_step_watch(&watch);
  run(session);
  EXPECT_EQ(seen.open, 0);
  ASSERT_GT(seen.begun.size(), 2u);
  EXPECT_EQ(seen.begun[0], "forward");
  const size_t once = seen.begun.size();
  seen.wanted = 0;
  run(session);
  seen.wanted = 1;
  ingot::set_step_watch(nullptr);
  run(session);
  EXPECT_EQ(seen.begun.size(), once);
  watch.end = nullptr;
  EXPECT_THROW(ingot::set_step_watch(&watch), ingot::Error);
}

TEST(Wrapper, States) {
  const ingot::Plan plan = ingot::compile(ingot::Model::open(INGOT_TEST_DECODER));
  const ingot::Weights weights(plan);
  ingot::Session session(plan, weights), other(plan, weights);
  ingot::State a(plan, weights);
  session.set_state(a);
  for (int64_t n = 0; n < 3; ++n) EXPECT_EQ(step(session, n), step(other, n));
  ingot::State b = a.fork();
  step(session, 9);
  EXPECT_EQ(position(a), 4);
  EXPECT_EQ(position(b), 3);
  const std::string path = testing::TempDir() + "ingot_wrapper_state.safetensors";
  b.save(path);
  b.reset();
  EXPECT_EQ(position(b), 0);
  ingot::State c(plan, weights);
  c.load(path);
  std::remove(path.c_str());
  session.set_state(c);
  EXPECT_EQ(step(session, 5), step(other, 5));
  EXPECT_THROW(c.load(path), ingot::Error);
  EXPECT_EQ(plan.states().size(), c.entries().size());
  EXPECT_EQ(plan.states()[0].name, c.entries()[0].name);
  std::vector<int64_t> mine{2};
  c.bind("position", {std::span(mine), {1}});
  step(session, 5);
  EXPECT_EQ(mine[0], 3);
  EXPECT_EQ(c.tensor("position").data(), mine.data());
}

}  // namespace
