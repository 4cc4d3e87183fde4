// States shared by sessions: plans of several functions, compiled from graph texts.
#include "runtime/state.h"

#include <atomic>
#include <numeric>
#include <thread>

#include "compile/compile.h"
#include "runtime/session.h"
#include "runtime/session_test.h"

namespace ingot::runtime {
namespace {

ir::Graph graph(const std::string& text) {
  ir::Graph g = ir::parse("ingot-graph 1\n" + text);
  for (ir::Weight& w : g.weights) {
    keep_values(w, w.name == "total" ? std::vector<float>{1, 2} : std::vector<float>{0});
    w.mutated = true;
  }
  return g;
}

// "forward": total += x, y = total; "count": calls += 1, total *= x, y = total. They share an entry like prefill and decode share a cache.
std::shared_ptr<const plan::Plan> counting() {
  ir::Graph add = graph("%0 = input() {name=\"x\"} : f32[2]\n%1 = weight() {name=\"total\"} : f32[2]\n%2 = add(%1, %0) {} : f32[2]\noutput %2 \"y\" []\n");
  add.outputs.push_back({add.outputs[0].value, "total", {}, ir::Output::To::weight});
  ir::Graph count = graph(
      "%0 = input() {name=\"x\"} : f32[2]\n%1 = weight() {name=\"calls\"} : f32[1]\n%2 = weight() {name=\"total\"} : f32[2]\n"
      "%3 = mul(%2, %0) {} : f32[2]\n%4 = exp(%1) {} : f32[1]\noutput %3 \"y\" []\noutput %4 \"z\" []\n");
  count.outputs.push_back({count.outputs[0].value, "total", {}, ir::Output::To::weight});
  count.outputs.push_back({count.outputs[1].value, "calls", {}, ir::Output::To::weight});
  const compile::NamedGraph functions[] = {{"forward", add}, {"count", count}};
  return std::make_shared<plan::Plan>(compile::compile(functions, {}));
}

using Values = std::vector<float>;

HostTensor host(Values& values, const int64_t* dims) { return {values.data(), ir::DType::f32, 1, dims, nullptr}; }

// The first output.
Values run(Session& session, Values x) {
  const int64_t two[] = {2}, one[] = {1};
  Values y(2), z(1);
  HostTensor in = host(x, two), out[] = {host(y, two), host(z, one)};
  session.run({&in, 1}, std::span(out).first(session.function().name == "count" ? 2 : 1));
  return y;
}

Values total(State& state) {
  Values out(2);
  state.copy(state.find("total"), out.data(), 8, true);
  return out;
}

std::shared_ptr<State> made(const std::shared_ptr<Weights>& weights, Allocator& memory = system_allocator()) {
  auto state = std::make_shared<State>(weights, memory, State::Of::shared);
  state->begin();
  return state;
}

std::string message(const std::function<void()>& fn) {
  const Error e = refused(fn);
  EXPECT_NE(e.remedy, "");
  return e.message;
}

TEST(State, AnEntryForEachWeightThatIsWritten) {
  auto state = made(std::make_shared<Weights>(counting(), 1));
  ASSERT_EQ(state->size(), 2u);
  EXPECT_EQ(state->what(0).name, "total");
  EXPECT_EQ(state->what(1).name, "calls");
  EXPECT_EQ(total(*state), (Values{1, 2}));
}

TEST(State, InterleavedThroughOneSession) {
  auto weights = std::make_shared<Weights>(counting(), 1);
  Session session(weights, 0, {1});
  auto a = made(weights), b = made(weights);
  for (int i = 1; i <= 3; ++i) {
    session.set_state(a);
    EXPECT_EQ(run(session, {10, 100}), (Values{1 + 10.0f * static_cast<float>(i), 2 + 100.0f * static_cast<float>(i)}));
    session.set_state(b);
    EXPECT_EQ(run(session, {1, 1}), (Values{1 + static_cast<float>(i), 2 + static_cast<float>(i)}));
  }
  session.set_state(nullptr);
  EXPECT_EQ(run(session, {0, 0}), (Values{1, 2}));
  EXPECT_EQ(total(*a), (Values{31, 302}));
}

TEST(State, FunctionsShareIt) {
  auto weights = std::make_shared<Weights>(counting(), 1);
  Session add(weights, 0, {1}), count(weights, 1, {1});
  auto state = made(weights);
  add.set_state(state);
  count.set_state(state);
  EXPECT_EQ(run(add, {1, 1}), (Values{2, 3}));
  EXPECT_EQ(run(count, {10, 10}), (Values{20, 30}));
  EXPECT_EQ(run(add, {1, 1}), (Values{21, 31}));
  float calls = 0;
  state->copy(state->find("calls"), &calls, 4, true);
  EXPECT_EQ(calls, 1);
}

TEST(State, ForksAndCopiesLiveOnByThemselves) {
  auto weights = std::make_shared<Weights>(counting(), 1);
  Session session(weights, 0, {1});
  auto a = made(weights);
  session.set_state(a);
  run(session, {10, 10});
  auto b = a->fork();
  run(session, {10, 10});
  EXPECT_EQ(total(*a), (Values{21, 22}));
  EXPECT_EQ(total(*b), (Values{11, 12}));
  session.set_state(b);
  EXPECT_EQ(run(session, {1, 1}), (Values{12, 13}));
  a->copy_from(*b);
  a->copy_from(*a);
  EXPECT_EQ(total(*a), (Values{12, 13}));
  b->reset();
  EXPECT_EQ(total(*a), (Values{12, 13}));
  EXPECT_EQ(total(*b), (Values{1, 2}));
}

TEST(State, ResetTakesTheWeightsOfNow) {
  auto weights = std::make_shared<Weights>(counting(), 1);
  auto a = made(weights);
  const Values other{7, 8};
  weights->set("total", other.data(), 8, true);
  weights->commit(1);
  EXPECT_EQ(total(*a), (Values{1, 2}));
  a->reset();
  EXPECT_EQ(total(*a), other);
  EXPECT_EQ(total(*made(weights)), other);
}

TEST(State, ASessionsOwnBeginsWithTheWeightsItHas) {
  auto weights = std::make_shared<Weights>(counting(), 1), fork = weights->fork();
  const Values other{7, 8};
  fork->set("total", other.data(), 8, true);
  fork->commit(1);
  Session session(weights, 0, {1});
  session.set_weights(fork);
  EXPECT_EQ(run(session, {1, 1}), (Values{8, 9}));
  session.set_weights(weights);
  EXPECT_EQ(run(session, {1, 1}), (Values{9, 10}));  // new weights do not change the state
  session.reset();
  EXPECT_EQ(run(session, {1, 1}), (Values{2, 3}));
  session.set_state(made(fork));
  EXPECT_EQ(run(session, {1, 1}), (Values{8, 9}));
}

TEST(State, OfTheCallersMemory) {
  auto weights = std::make_shared<Weights>(counting(), 1);
  Counting memory;
  Session session(weights, 0, {1}, memory);
  auto state = made(weights, memory);
  session.set_state(state);
  Values wide{1, -1, 2, -1};
  const int64_t two[] = {2}, strides[] = {2};
  const size_t entry = state->find("total");
  state->bind(entry, {wide.data(), ir::DType::f32, 1, two, strides});
  EXPECT_EQ(run(session, {10, 10}), (Values{11, 12}));
  EXPECT_EQ(wide, (Values{11, -1, 12, -1}));
  auto fork = state->fork();
  const Values other{3, 4};
  state->copy(entry, const_cast<float*>(other.data()), 8, false);
  EXPECT_EQ(wide, (Values{3, -1, 4, -1}));
  state->copy_from(*fork);
  EXPECT_EQ(wide, (Values{11, -1, 12, -1}));
  fork->reset();
  fork->copy_from(*state);
  EXPECT_EQ(total(*fork), (Values{11, 12}));
  EXPECT_EQ(state->tensor(entry).data, wide.data());
  session.reset();  // except the caller's memory
  EXPECT_EQ(wide, (Values{11, -1, 12, -1}));
  state->reset();
  EXPECT_EQ(wide, (Values{1, -1, 2, -1}));
  state->bind(entry, {});
  EXPECT_EQ(run(session, {1, 1}), (Values{2, 3}));
  EXPECT_EQ(wide, (Values{1, -1, 2, -1}));
}

TEST(State, ItsMemoryIsGivenOut) {
  auto weights = std::make_shared<Weights>(counting(), 1);
  Session session(weights, 0, {1});
  auto state = made(weights);
  session.set_state(state);
  HostTensor t = state->tensor(state->find("total"));
  auto* values = static_cast<float*>(t.data);
  values[0] = 100;
  EXPECT_EQ(run(session, {1, 1}), (Values{101, 3}));
  EXPECT_EQ(values[1], 3);
  // It is written, so it cannot be an input too.
  Values y(2);
  HostTensor out = host(y, t.dims);
  EXPECT_EQ(message([&] { session.run({&t, 1}, {&out, 1}); }), "\"total\" and \"x\" share memory, and the model writes to \"total\"");
}

TEST(State, ASessionThatIsGivenOneTakesNoMemoryForItsOwn) {
  auto weights = std::make_shared<Weights>(counting(), 1);
  Counting given, memory;
  auto state = made(weights, given);
  EXPECT_EQ(given.count, 2);
  Session session(weights, 0, {1}, memory), other(weights, 0, {1}, memory);
  session.set_state(state);
  run(session, {1, 1});
  const int before = memory.count;
  run(session, {1, 1});
  EXPECT_EQ(memory.count, before);
  run(other, {1, 1});
  EXPECT_EQ(memory.count, 2 * before + 1);  // the one entry that its function writes
}

TEST(State, WhatDoesNotFitIsRefusedAndChangesNothing) {
  auto weights = std::make_shared<Weights>(counting(), 1), others = std::make_shared<Weights>(counting(), 1);
  Session session(weights, 0, {1});
  auto state = made(weights), foreign = made(others);
  session.set_state(state);
  Values three(3);
  const int64_t dims[] = {3};
  EXPECT_EQ(message([&] { state->find("totl"); }), "the state has no entry \"totl\"");
  EXPECT_EQ(message([&] { state->copy(0, three.data(), 12, true); }), "state \"total\" has 8 bytes, but 12 are given");
  EXPECT_EQ(message([&] { state->bind(0, host(three, dims)); }), "the memory given for state \"total\" (float32 [3]) does not have its dtype and shape");
  EXPECT_EQ(message([&] { session.set_state(foreign); }), "the state was made for another plan, or on another device");
  EXPECT_EQ(message([&] { state->copy_from(*foreign); }), "the state was made for another plan, or on another device");
  EXPECT_EQ(run(session, {1, 1}), (Values{2, 3}));
}

TEST(State, WithoutMemoryNothingChanges) {
  auto weights = std::make_shared<Weights>(counting(), 1);
  Counting memory;
  memory.fails = true;
  EXPECT_THROW(made(weights, memory), std::bad_alloc);
  memory.fails = false;
  auto state = made(weights, memory), empty = std::make_shared<State>(weights, memory, State::Of::shared);
  memory.fails = true;
  EXPECT_THROW(state->fork(), std::bad_alloc);
  EXPECT_THROW(empty->copy_from(*state), std::bad_alloc);
  EXPECT_THROW(total(*empty), std::bad_alloc);
  memory.fails = false;
  EXPECT_EQ(total(*state), (Values{1, 2}));
  EXPECT_EQ(total(*empty), (Values{1, 2}));
}

TEST(State, OneUserAtATime) {
  auto weights = std::make_shared<Weights>(counting(), 1);
  Session session(weights, 0, {1});
  auto state = made(weights);
  session.set_state(state);
  {
    State::Use use(*state);
    const std::string busy = "the state is in use: another run or call with it has not returned";
    EXPECT_EQ(message([&] { run(session, {1, 1}); }), busy);
    EXPECT_EQ(message([&] { total(*state); }), busy);
    EXPECT_EQ(message([&] { state->fork(); }), busy);
    EXPECT_EQ(message([&] { made(weights)->copy_from(*state); }), busy);
    EXPECT_EQ(message([&] { state->reset(); }), busy);
    EXPECT_EQ(message([&] { state->bind(0, {}); }), busy);
  }
  EXPECT_EQ(run(session, {1, 1}), (Values{2, 3}));
}

// Many threads with a session each pass states around: each run happens completely or is refused.
TEST(State, ThreadsThatFightForOne) {
  auto weights = std::make_shared<Weights>(counting(), 1);
  auto state = made(weights);
  std::atomic<int> ran{0}, refused{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      Session session(weights, 0, {1});
      session.set_state(state);
      for (int k = 0; k < 200; ++k) {
        try {
          run(session, {1, 1});
          ++ran;
        } catch (const Error& e) {
          EXPECT_EQ(e.code, Code::invalid_input);
          ++refused;
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(ran + refused, 800);
  EXPECT_EQ(total(*state)[0], 1 + static_cast<float>(ran));
}

// y = cache += x, with dynamic sizes.
std::shared_ptr<const plan::Plan> with_cache() {
  ir::Graph g = ir::parse(
      "ingot-graph 1\nsymbol B 1 2 8\nsymbol L 1 4 64\n%0 = input() {name=\"x\"} : f32[B, L]\n%1 = input() {name=\"cache\"} : f32[B, L]\n"
      "%2 = add(%1, %0) {} : f32[B, L]\noutput %2 \"y\" []\n");
  g.outputs.push_back({g.outputs[0].value, "cache", {}, ir::Output::To::input});
  return std::make_shared<plan::Plan>(compile::compile(g, {}));
}

// x is ones; the cache is in the state.
Values run_with_cache(Session& session, int64_t b, int64_t l) {
  Values x(static_cast<size_t>(b * l), 1), y(x.size());
  const int64_t dims[] = {b, l};
  const HostTensor in[] = {{x.data(), ir::DType::f32, 2, dims, nullptr}, {nullptr, ir::DType::f32, 2, dims, nullptr}}, out{y.data(), ir::DType::f32, 2, dims, nullptr};
  session.run(in, {&out, 1});
  return y;
}

TEST(State, HasSizesOfItsOwn) {
  auto weights = std::make_shared<Weights>(with_cache(), 1);
  Counting memory;
  Session session(weights, 0, {1});
  State::Sizes sizes{{"L", 3}};
  auto a = std::make_shared<State>(weights, memory, State::Of::shared, sizes), b = made(weights);
  a->begin();
  ASSERT_EQ(a->size(), 1u);
  EXPECT_EQ(memory.count, 0);  // until it is used
  EXPECT_EQ(a->what(0).dims, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(b->what(0).dims, (std::vector<int64_t>{2, 4}));
  session.set_state(a);
  EXPECT_EQ(run_with_cache(session, 2, 3), Values(6, 1));
  EXPECT_EQ(run_with_cache(session, 2, 3), Values(6, 2));
  EXPECT_EQ(message([&] { run_with_cache(session, 2, 4); }), "input \"cache\" is given without memory as float32 [2, 4], and the state has it as float32 [2, 3]");
  session.set_state(b);
  EXPECT_EQ(run_with_cache(session, 2, 4), Values(8, 1));
  // It grows: elements keep their indices.
  auto fork = a->fork();
  a->grow({{"L", 5}, {"B", 3}});
  EXPECT_EQ(a->what(0).dims, (std::vector<int64_t>{3, 5}));
  session.set_state(a);
  EXPECT_EQ(run_with_cache(session, 3, 5), (Values{3, 3, 3, 1, 1, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(message([&] { a->copy_from(*fork); }), "entry \"cache\" is [3, 5] here and [2, 3] there");
  fork->grow({{"L", 5}, {"B", 3}});
  a->copy_from(*fork);
  EXPECT_EQ(run_with_cache(session, 3, 5), (Values{3, 3, 3, 1, 1, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1}));
  a->reset();
  EXPECT_EQ(run_with_cache(session, 3, 5), Values(15, 1));
  session.set_state(nullptr);
  EXPECT_THROW(run_with_cache(session, 2, 4), Error);
}

TEST(State, SizesThatDoNotFit) {
  auto weights = std::make_shared<Weights>(with_cache(), 1);
  auto with = [&](State::Sizes sizes) { return std::make_shared<State>(weights, system_allocator(), State::Of::shared, std::move(sizes)); };
  EXPECT_EQ(message([&] { with({{"M", 3}}); }), "the plan has no size \"M\"");
  EXPECT_EQ(message([&] { with({{"L", 65}}); }), "size \"L\" of a state is 65, outside the range 1..64 the plan was built for");
  auto state = with({{"L", 8}});
  EXPECT_EQ(message([&] { state->grow({{"L", 7}}); }), "entry \"cache\" is [2, 8], and would become [2, 7], which is smaller");
  EXPECT_EQ(message([&] { state->grow({{"L", 0}}); }), "size \"L\" of a state is 0, outside the range 1..64 the plan was built for");
  Values mine(16);
  const int64_t dims[] = {2, 8};
  state->bind(0, {mine.data(), ir::DType::f32, 2, dims, nullptr});
  Counting memory;  // outlives the session, which keeps its state
  Session session(weights, 0, {1});
  session.set_state(state);
  EXPECT_EQ(run_with_cache(session, 2, 8), mine);
  EXPECT_EQ(message([&] { state->grow({{"L", 9}}); }), "entry \"cache\" is [2, 8], and would become [2, 9], but is in memory that was bound");
  EXPECT_EQ(state->what(0).dims, (std::vector<int64_t>{2, 8}));
  {
    State::Use use(*state);
    EXPECT_EQ(message([&] { run_with_cache(session, 2, 8); }), "the state is in use: another run or call with it has not returned");
  }
  auto other = std::make_shared<State>(weights, memory, State::Of::shared);
  session.set_state(other);
  run_with_cache(session, 2, 4);
  memory.fails = true;
  EXPECT_THROW(other->grow({{"L", 9}}), std::bad_alloc);
  memory.fails = false;
  EXPECT_EQ(run_with_cache(session, 2, 4), Values(8, 2));
}

}  // namespace
}  // namespace ingot::runtime
