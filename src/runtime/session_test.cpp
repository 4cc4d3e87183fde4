// Sessions and weights of small plans, compiled from graph texts.
#include "runtime/session.h"

#include <atomic>
#include <thread>

#include "runtime/session_test.h"

namespace ingot::runtime {
namespace {

// y = x * w + v, w of 3 columns; v: [B, 3].
std::shared_ptr<const plan::Plan> scaled() {
  return compile(
      "%0 = input() {name=\"x\"} : f32[B, 3]\n%1 = input() {name=\"v\"} : f32[B, 3]\n%2 = weight() {name=\"w\"} : f32[3]\n"
      "%3 = mul(%0, %2) {} : f32[B, 3]\n%4 = add(%3, %1) {} : f32[B, 3]\noutput %4 \"y\" []\n",
      {{1, 10, 100}});
}

// y = x @ w, so that prepare packs w.
std::shared_ptr<const plan::Plan> product() {
  return compile("%0 = input() {name=\"x\"} : f32[B, 2]\n%1 = weight() {name=\"w\"} : f32[2, 2]\n%2 = matmul(%0, %1) {} : f32[B, 2]\noutput %2 \"y\" []\n", {{1, 2, 3, 4}});
}

Tensor numbers(std::vector<int64_t> dims, float start = 0) {
  size_t n = 1;
  for (int64_t d : dims) n *= static_cast<size_t>(d);
  Tensor t{std::vector<float>(n), std::move(dims)};
  for (size_t i = 0; i < n; ++i) t.data[i] = start + static_cast<float>(i);
  return t;
}

std::vector<float> run(Session& session, std::vector<Tensor> inputs) {
  std::vector<HostTensor> in;
  for (Tensor& t : inputs) in.push_back(t.host());
  Tensor y = numbers(session.resolve(in)[0], -1);
  HostTensor out = y.host();
  session.run(in, {&out, 1});
  return y.data;
}

std::vector<float> scaled_by_hand(const Tensor& x, const Tensor& v) {
  std::vector<float> y;
  for (size_t i = 0; i < x.data.size(); ++i) y.push_back(x.data[i] * (i % 3 == 0 ? 1.0f : i % 3 == 1 ? 10.0f : 100.0f) + v.data[i]);
  return y;
}

TEST(Session, EverySizeAndAgain) {
  Session session(std::make_shared<Weights>(scaled(), 1), 0, {1});
  for (int round = 0; round < 2; ++round) {
    for (int64_t b = 1; b <= 64; ++b) {  // twice as many as are kept
      Tensor x = numbers({b, 3}), v = numbers({b, 3}, 5);
      ASSERT_EQ(run(session, {x, v}), scaled_by_hand(x, v)) << b;
      ASSERT_LE(session.kept_sizes(), 32u);
    }
  }
  EXPECT_EQ(session.kept_sizes(), 32u);
}

TEST(Session, NothingIsAllocatedAfterTheFirstRunOfASize) {
  Counting memory;
  auto weights = std::make_shared<Weights>(product(), 1);
  Session session(weights, 0, {1}, memory);
  Tensor x = numbers({5, 2}), transposed = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {5, 2}, {1, 5}};
  run(session, {x});
  run(session, {transposed});
  const int before = memory.count;
  for (int i = 0; i < 3; ++i) {
    run(session, {x});
    run(session, {transposed});
  }
  EXPECT_EQ(memory.count, before);
}

TEST(Session, StridedInputsAreGathered) {
  Session session(std::make_shared<Weights>(scaled(), 1), 0, {1});
  Tensor x = numbers({2, 3}), v = numbers({2, 3}, 5);
  Tensor transposed{{0, 3, 1, 4, 2, 5}, {2, 3}, {1, 2}};
  Tensor same_rows{{5, 6, 7}, {2, 3}, {0, 1}};
  Tensor wide{{0, 1, 2, -1, -1, 3, 4, 5}, {2, 3}, {5, 1}};
  EXPECT_EQ(run(session, {transposed, v}), scaled_by_hand(x, v));
  EXPECT_EQ(run(session, {wide, v}), scaled_by_hand(x, v));
  EXPECT_EQ(run(session, {x, same_rows}), scaled_by_hand(x, Tensor{{5, 6, 7, 5, 6, 7}, {2, 3}}));
  // Strides are negative.
  Tensor reversed{{5, 4, 3, 2, 1, 0}, {2, 3}, {-3, -1}};
  HostTensor in[] = {reversed.host(), v.host()};
  in[0].data = reversed.data.data() + 5;
  Tensor y = numbers({2, 3});
  HostTensor out = y.host();
  session.run(in, {&out, 1});
  EXPECT_EQ(y.data, scaled_by_hand(x, v));
}

// The same with an x whose columns are contiguous.
std::shared_ptr<const plan::Plan> scaled_by_columns() {
  return compile(
      "%0 = input() {name=\"x\", order=[1, 0]} : f32[3, B]\n%1 = input() {name=\"v\"} : f32[B, 3]\n%2 = weight() {name=\"w\"} : f32[3]\n"
      "%3 = view(%0) {map=map([B, 3] <- [<0> + 1*i1, <0> + 1*i0])} : f32[B, 3]\n"
      "%4 = mul(%3, %2) {} : f32[B, 3]\n%5 = add(%4, %1) {} : f32[B, 3]\noutput %5 \"y\" []\n",
      {{1, 10, 100}});
}

TEST(Session, AnInputIsReadAsItLies) {
  Counting memory;
  Session session(std::make_shared<Weights>(scaled_by_columns(), 1), 0, {1}, memory);
  Tensor x = numbers({2, 3}), v = numbers({2, 3}, 5), columns{{0, 3, 1, 4, 2, 5}, {2, 3}, {1, 2}};
  EXPECT_EQ(run(session, {columns, v}), scaled_by_hand(x, v));
  const int before = memory.count;
  Tensor one{{7, 8, 9}, {1, 3}, {5, 1}}, first = numbers({1, 3});  // no axis but one: any order
  EXPECT_EQ(run(session, {one, first}), scaled_by_hand(one, first));
  EXPECT_EQ(memory.count, before);
  EXPECT_EQ(run(session, {x, v}), scaled_by_hand(x, v));
  EXPECT_EQ(memory.count, before + 1);  // for the copy
  Tensor wide{{0, 3, -1, 1, 4, -1, 2, 5, -1}, {2, 3}, {1, 3}};
  EXPECT_EQ(run(session, {wide, v}), scaled_by_hand(x, v));
  EXPECT_EQ(refused([&] { run(session, {numbers({2, 4}), v}); }).message, "axis 1 of input \"x\" (shape [2, 4]) has size 4, but the plan was built for 3 there");
  EXPECT_EQ(refused([&] { run(session, {numbers({65, 3}), v}); }).message, "axis 0 of input \"x\" has size 65, outside the range 1..64 the plan was built for");
  EXPECT_EQ(refused([&] { run(session, {numbers({2}), v}); }).message, "input \"x\" has rank 1 (shape [2]), but the plan was built for rank 2: [B, 3]");
}

TEST(Session, AnInputIsWrittenAsItLies) {
  auto plan = compile(
      "%0 = input() {name=\"x\", order=[1, 0]} : f32[3, B]\n%1 = add(%0, %0) {} : f32[3, B]\n%2 = view(%0) {map=map([B] <- [<0>, <0> + 1*i0])} : f32[B]\n"
      "output %2 \"first\" []\noutput %1 \"x\" [] to input\n",
      {});
  Session session(std::make_shared<Weights>(plan, 1), 0, {1});
  for (std::vector<int64_t> strides : {std::vector<int64_t>{1, 2}, {3, 1}, {4, 1}}) {
    Tensor x{std::vector<float>(8), {2, 3}, strides}, first = numbers({2});
    auto at = [&](int64_t i, int64_t j) -> float& { return x.data[static_cast<size_t>(i * strides[0] + j * strides[1])]; };
    for (int64_t i = 0; i < 6; ++i) at(i / 3, i % 3) = static_cast<float>(i);
    HostTensor in = x.host(), out = first.host();
    session.run({&in, 1}, {&out, 1});
    for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(at(i / 3, i % 3), static_cast<float>(2 * i));
    EXPECT_EQ(first.data, (std::vector<float>{0, 3}));
  }
}

TEST(Session, WrongInputsLeaveItUsable) {
  Session session(std::make_shared<Weights>(scaled(), 1), 0, {1});
  Tensor x = numbers({2, 3}), v = numbers({2, 3}, 5), y = numbers({2, 3});
  auto attempt = [&](std::vector<HostTensor> in, std::vector<HostTensor> out) {
    std::string said = refused([&] { session.run(in, out); }).message;
    EXPECT_EQ(run(session, {x, v}), scaled_by_hand(x, v)) << "after: " << said;
    return said;
  };
  Tensor many = numbers({65, 3}), none = numbers({0, 3}), wide = numbers({2, 4}), three = numbers({3, 3}), flat = numbers({6});
  HostTensor ints = x.host(), nowhere = x.host(), transposed = y.host();
  ints.dtype = ir::DType::i32;
  nowhere.data = nullptr;
  const int64_t column_major[] = {1, 2};
  transposed.strides = column_major;
  EXPECT_EQ(attempt({x.host()}, {y.host()}), "the plan takes 2 inputs (x, v), but 1 is given");
  EXPECT_EQ(attempt({ints, v.host()}, {y.host()}), "input \"x\" is int32, but the plan was built for float32");
  EXPECT_EQ(attempt({flat.host(), v.host()}, {y.host()}), "input \"x\" has rank 1 (shape [6]), but the plan was built for rank 2: [B, 3]");
  EXPECT_EQ(attempt({many.host(), many.host()}, {y.host()}), "axis 0 of input \"x\" has size 65, outside the range 1..64 the plan was built for");
  EXPECT_EQ(attempt({none.host(), none.host()}, {y.host()}), "axis 0 of input \"x\" has size 0, outside the range 1..64 the plan was built for");
  EXPECT_EQ(attempt({wide.host(), v.host()}, {y.host()}), "axis 1 of input \"x\" (shape [2, 4]) has size 4, but the plan was built for 3 there");
  EXPECT_EQ(attempt({x.host(), three.host()}, {y.host()}), "axis 0 of input \"v\" (shape [3, 3]) has size 3, but the sizes of the other inputs make it B = 2");
  EXPECT_EQ(attempt({nowhere, v.host()}, {y.host()}), "input \"x\" has no data: its pointer is NULL");
  EXPECT_EQ(attempt({x.host(), v.host()}, {nowhere}), "output \"y\" has no memory: its pointer is NULL");
  EXPECT_EQ(attempt({x.host(), v.host()}, {}), "the plan gives 1 output (y), but room for 0 are given");
  for (HostTensor wrong : {three.host(), ints, transposed}) {
    EXPECT_TRUE(attempt({x.host(), v.host()}, {wrong}).ends_with("does not have the dtype, shape and row-major strides of the result"));
  }
}

TEST(Session, NoMemoryLeavesItUsable) {
  Counting memory;
  Session session(std::make_shared<Weights>(product(), 1), 0, {1}, memory);
  memory.fails = true;
  EXPECT_THROW(run(session, {numbers({3, 2})}), std::bad_alloc);
  memory.fails = false;
  EXPECT_EQ(run(session, {numbers({1, 2}, 1)}), (std::vector<float>{7, 10}));
}

TEST(Session, TellsTheTimeOfEachStep) {
  Session session(std::make_shared<Weights>(product(), 1), 0, {1});
  run(session, {numbers({3, 2})});
  EXPECT_EQ(session.profile(), "{\"steps\": [], \"call_nanoseconds\": 0, \"resolutions\": 1}");
  session.set_profiling(true);
  run(session, {numbers({3, 2})});
  EXPECT_NE(session.profile().find("\"kernel\": \"matmul\""), std::string::npos) << session.profile();
}

TEST(Weights, SetAndCommit) {
  auto weights = std::make_shared<Weights>(product(), 1);
  Session session(weights, 0, {1});
  const Tensor x = numbers({1, 2}, 1);
  EXPECT_EQ(run(session, {x}), (std::vector<float>{7, 10}));
  std::vector<float> ones(4, 1);
  weights->set("w", ones.data(), 16, true);
  ones.assign(4, 1000);  // it was copied
  EXPECT_EQ(run(session, {x}), (std::vector<float>{7, 10})) << "before the commit";
  auto old = weights->current();
  weights->commit(1);
  EXPECT_EQ(run(session, {x}), (std::vector<float>{3, 3}));
  EXPECT_EQ(run(session, {x}), (std::vector<float>{3, 3}));
  EXPECT_NE(weights->current(), old);
  Session later(weights, 0, {1});
  EXPECT_EQ(run(later, {x}), (std::vector<float>{3, 3}));
}

TEST(Weights, AreReadAsTheyLie) {
  // y = x * w: the state dict's w is [2, 3] with contiguous columns.
  auto plan = compile(
      "%0 = input() {name=\"x\"} : f32[2, 3]\n%1 = weight() {name=\"w\", order=[1, 0]} : f32[3, 2]\n"
      "%2 = view(%1) {map=map([2, 3] <- [<0> + 1*i1, <0> + 1*i0])} : f32[2, 3]\n%3 = mul(%0, %2) {} : f32[2, 3]\noutput %3 \"y\" []\n",
      {{0, 3, 1, 4, 2, 5}});
  EXPECT_EQ(plan->weights[0].dims, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(plan->weights[0].order, (std::vector<uint8_t>{1, 0}));
  auto weights = std::make_shared<Weights>(plan, 1);
  Session session(weights, 0, {1});
  const Tensor ones{std::vector<float>(6, 1), {2, 3}};
  EXPECT_EQ(run(session, {ones}), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(weights->current()->memory.weights[0], plan->weights[0].data);
  const std::vector<float> rows{5, 4, 3, 2, 1, 0}, columns{5, 2, 4, 1, 3, 0}, wide{5, 4, 3, -1, 2, 1, 0, -1};
  for (bool copy : {false, true}) {
    for (const auto& [values, strides] : {std::pair(&rows, std::vector<int64_t>()), {&columns, {1, 2}}, {&wide, {4, 1}}}) {
      weights->set("w", values->data(), 24, copy, strides.empty() ? nullptr : strides.data());
      weights->commit(1);
      EXPECT_EQ(run(session, {ones}), rows);
      EXPECT_EQ(weights->current()->memory.weights[0] == reinterpret_cast<const std::byte*>(values->data()), values == &columns && !copy);
    }
  }
}

TEST(Weights, WhatDoesNotFitIsRefusedAndChangesNothing) {
  auto weights = std::make_shared<Weights>(product(), 1);
  Session session(weights, 0, {1});
  std::vector<float> ones(9, 1);
  EXPECT_EQ(refused([&] { weights->set("nope", ones.data(), 16, true); }).message, "the plan has no weight \"nope\"");
  EXPECT_EQ(refused([&] { weights->set("w", ones.data(), 36, true); }).message, "weight \"w\" has 16 bytes, but 36 are given");
  weights->commit(1);
  EXPECT_EQ(run(session, {numbers({1, 2}, 1)}), (std::vector<float>{7, 10}));
}

TEST(Weights, ACommitWithoutMemoryChangesNothing) {
  Counting memory;
  auto weights = std::make_shared<Weights>(product(), 1, memory);
  Session session(weights, 0, {1});
  const std::vector<float> ones(4, 1);
  weights->set("w", ones.data(), 16, false);
  memory.fails = true;
  EXPECT_THROW(weights->commit(1), std::bad_alloc);
  EXPECT_EQ(run(session, {numbers({1, 2}, 1)}), (std::vector<float>{7, 10}));
  memory.fails = false;
  weights->commit(1);
  EXPECT_EQ(run(session, {numbers({1, 2}, 1)}), (std::vector<float>{3, 3}));
}

// A run sees the weights of one commit, never of two.
TEST(Weights, SwappedWhileSessionsRun) {
  auto weights = std::make_shared<Weights>(product(), 1);
  std::atomic<bool> stop{false};
  std::atomic<int> runs{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      Session session(weights, 0, {1});
      while (!stop) {
        std::vector<float> y = run(session, {numbers({1, 2}, 1)});
        bool fits = y == std::vector<float>{7, 10} || (y[0] == y[1] && static_cast<int>(y[0]) % 3 == 0);
        if (!fits) ++wrong;
        ++runs;
      }
    });
  }
  for (int i = 0; i < 200 || runs < 200; ++i) {
    const std::vector<float> same(4, static_cast<float>(i));
    weights->set("w", same.data(), 16, true);
    weights->commit(1);
  }
  stop = true;
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace ingot::runtime
