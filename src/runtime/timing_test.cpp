// Timing on a device that only has a clock: kernels take the time that the test sets.
#include "runtime/timing.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "backend/run/host.h"
#include "base/error.h"
#include "runtime/session_test.h"

namespace ingot::runtime {
namespace {

using backend::Call;
using backend::RunKernel;
using kernels::Tunable;

// The device's clock, and a record of its work.
struct Clock {
  int64_t now = 0;
  std::map<std::string, int64_t> times;  // "kernel choice" -> nanoseconds; 0: the run is refused
  std::vector<std::string> done;         // the runs in order, without repetitions in a row
  std::set<const std::byte*> weights;    // addresses of the second operand
} clock_;

struct State {
  std::string name;
};
// A kernel of this name with `Choices` choices, called "0", "1" and so on.
template <char Name, int Choices>
RunKernel kernel(std::string_view called) {
  static constexpr char name[] = {Name, 0};
  auto load = [](std::span<const std::byte>, size_t, size_t) -> std::shared_ptr<const void> { return std::make_shared<int>(0); };
  auto problem = [](const Call& call) {
    std::string out = name;
    for (int d = 0; d < call.operands.back().rank; ++d) out += " " + std::to_string(call.operands.back().dims[d]);
    return out;
  };
  static const auto problem_of = problem;
  auto resolve = [](const Call& call) {
    const bool tried = call.trial != nullptr && call.trial->problem == problem_of(call);
    return backend::Resolved{64, std::make_shared<State>(State{std::string(name) + " " + (tried ? call.trial->choice : "0")})};
  };
  auto run = [](const Call& call) {
    const std::string& did = static_cast<const State*>(call.prepared)->name;
    for (const backend::TensorRef& t : call.operands) {
      if (t.data == nullptr || call.scratch == nullptr) fail(Code::internal, "nothing is there");
    }
    if (call.operands.size() > 1) clock_.weights.insert(call.operands[1].data);
    auto found = clock_.times.find(did);
    if (found != clock_.times.end() && found->second == 0) fail(Code::device, "{} is refused", did);
    clock_.now += found == clock_.times.end() ? 1000 : found->second;
    if (clock_.done.empty() || clock_.done.back() != did) clock_.done.push_back(did);
  };
  auto tunables = [](const Call& call) {
    if (clock_.times.contains(std::string(name) + " at all")) fail(Code::unsupported, "{} is refused", name);
    Tunable out{"a machine", problem_of(call), {}};
    for (int i = 0; i < Choices; ++i) out.choices.push_back(std::to_string(i));
    return std::vector<Tunable>{out};
  };
  return {called, load, resolve, run, Choices > 0 ? +tunables : nullptr};
}

class Stream final : public backend::Stream {
  void set_stream(void*) override {}
  void copy(void*, const void*, size_t) override {}
  void fill(void* to, uint8_t value, size_t bytes) override { std::memset(to, value, bytes); }
  void wait() override {}
  void check() override {}
  bool recorded_by_caller() const override { return false; }
  void keep(std::shared_ptr<const void>) const override {}
  std::unique_ptr<backend::Recording> record(FunctionRef<void()>) override { return nullptr; }
  void replay(const backend::Recording&) override {}
  std::unique_ptr<backend::Point> new_point() const override { return nullptr; }
  void set(backend::Point&) const override {}
  void come_after(const backend::Point&) const override {}
  void mark() override { marks_.push_back(clock_.now); }
  std::vector<int64_t> nanoseconds() override {
    std::vector<int64_t> out;
    for (size_t i = 1; i < marks_.size(); ++i) out.push_back(marks_[i] - marks_[i - 1]);
    marks_.clear();
    return out;
  }
  std::vector<int64_t> marks_;
};

class Device final : public backend::Backend {
 public:
  Room has{size_t{1} << 30, 0};
  const RunKernel* find(std::string_view name) const override {
    static const RunKernel all[] = {kernel<'p', 4>("matmul"), kernel<'f', 3>("fused"), kernel<'o', 3>("other"), kernel<'n', 0>("nothing")};
    for (const RunKernel& k : all) {
      if (k.name == name) return &k;
    }
    return nullptr;
  }
  Allocator* memory() const override { return nullptr; }
  size_t alignment() const override { return 64; }
  bool can_access(const void*) const override { return true; }
  std::unique_ptr<backend::Stream> new_stream() const override { return std::make_unique<Stream>(); }
  void synchronize() const override {}
  int ordinal() const override { return -1; }
  std::string machine() const override { return "the device"; }
  Room room() const override { return has; }
};

// A plan of two steps: a GEMM, then a subtraction of the row's maximum. It usually has 4 rows.
class Timed : public testing::Test {
 protected:
  void SetUp() override {
    clock_ = {};
    plan = compile(R"(%0 = input() {name="x"} : f32[B, 8]
%1 = weight() {name="w"} : f32[8, 16]
%2 = matmul(%0, %1) {} : f32[B, 16]
%3 = reduce(%2) {kind="max", axes=[1], keep=true} : f32[B, 1]
%4 = sub(%2, %3) {} : f32[B, 16]
output %4 "y" []
)",
                   {std::vector<float>(128, 1)});
    ASSERT_EQ(plan->functions[0].programs[0].steps.size(), 2u);
  }
  // A step with its own kernel, and with these other kernels as alternatives.
  plan::TimedStep step(size_t n, const std::vector<std::string>& others = {}) const {
    const plan::Step& own = plan->functions[0].programs[0].steps[n];
    plan::TimedStep out{0, 0, n, {{"own", own}}, others.empty() ? "" : "which of " + std::to_string(n)};
    for (const std::string& k : others) {
      out.ways.push_back({k, own});
      out.ways.back().step.kernel = k;
    }
    return out;
  }
  std::vector<Timing> timed(const std::vector<plan::TimedStep>& steps, const std::vector<Timing>& known = {}, double seconds = 60) const {
    return time(*plan, {0, device}, steps, known, seconds);
  }
  std::vector<std::string> told(const std::vector<plan::TimedStep>& steps) const {
    std::vector<std::string> out;
    time(*plan, {0, device}, steps, {}, 60, [&](const Measured& m) { out.push_back(fmt::format("{}: {} {}, {:.0f} ns", m.problem, m.implementation, m.choice, m.seconds * 1e9)); });
    std::sort(out.begin(), out.end());
    return out;
  }
  using Found = std::vector<Timing>;

  std::shared_ptr<const plan::Plan> plan;
  std::shared_ptr<Device> device = std::make_shared<Device>();
};

TEST_F(Timed, TheFastestChoiceOfAKernel) {
  clock_.times = {{"p 2", 500}};
  EXPECT_EQ(timed({step(0)}), (Found{{"a machine", "p 4 16", "2"}}));
  // The usual choice stays unless another is faster by more than noise.
  clock_.times = {{"p 2", 995}};
  EXPECT_EQ(timed({step(0)}), (Found{{"a machine", "p 4 16", "0"}}));
  // Other choices may be refused when they run; the usual one may not.
  clock_.times = {{"p 1", 0}, {"p 3", 700}};
  EXPECT_EQ(timed({step(0)}), (Found{{"a machine", "p 4 16", "3"}}));
  clock_.times = {{"p 0", 0}};
  EXPECT_THROW(timed({step(0)}), Error);
}

TEST_F(Timed, TheMostExpensiveFirstAndOnce) {
  clock_.times = {{"f 0", 5000}, {"f 1", 4000}, {"f 2", 6000}};
  const Found both = timed({step(0), step(1), step(0)});
  EXPECT_EQ(both, (Found{{"a machine", "f 4 16", "1"}, {"a machine", "p 4 16", "0"}}));
  // The cheap step is timed later although it occurs twice; twenty of them together cost more, so they come first.
  std::vector<plan::TimedStep> many(20, step(0));
  many.push_back(step(1));
  EXPECT_EQ(timed(many), (Found{{"a machine", "p 4 16", "0"}, {"a machine", "f 4 16", "1"}}));
}

TEST_F(Timed, KnownTimingsAreNotRepeated) {
  const Timing known{"a machine", "p 4 16", "3"}, elsewhere{"another machine", "f 4 16", "2"};
  EXPECT_EQ(timed({step(0)}, {known}), Found{known});
  EXPECT_TRUE(clock_.done.empty());
  EXPECT_EQ(timed({step(0), step(1)}, {known, elsewhere}, 0), Found{known});
  EXPECT_TRUE(clock_.done.empty());
  clock_.times = {{"f 1", 10}};
  EXPECT_EQ(timed({step(1)}, {known, elsewhere}), (Found{{"a machine", "f 4 16", "1"}}));
}

TEST_F(Timed, TheFastestOfTwoKernelsEachAtItsBest) {
  const Timing which_other{"the device", "which of 0", "other"}, which_own{"the device", "which of 0", "own"};
  // The other kernel is slower with its usual choice, but the fastest with its best one.
  clock_.times = {{"p 0", 1000}, {"p 1", 900}, {"o 0", 1100}, {"o 2", 800}};
  EXPECT_EQ(timed({step(0, {"other"})}), (Found{{"a machine", "o 4 16", "2"}, which_other}));
  clock_.times = {{"p 0", 1000}, {"p 1", 700}, {"o 0", 1100}, {"o 2", 800}};
  EXPECT_EQ(timed({step(0, {"other"})}), (Found{{"a machine", "p 4 16", "1"}, which_own}));
  // If both are equal, the plan's own kernel stays.
  clock_.times = {};
  EXPECT_EQ(timed({step(0, {"other"})}), (Found{{"a machine", "p 4 16", "0"}, which_own}));
  // A kernel without choices is timed as it is.
  clock_.times = {{"n 0", 300}};
  EXPECT_EQ(timed({step(0, {"other", "nothing"})}), (Found{{"the device", "which of 0", "nothing"}}));
  // A kernel that refuses these sizes, or fails when it runs, is left out.
  clock_.times = {{"o at all", 0}};
  EXPECT_EQ(timed({step(0, {"other"})}), (Found{{"a machine", "p 4 16", "0"}}));
  EXPECT_EQ(timed({step(0, {"other", "nothing"})}), (Found{{"a machine", "p 4 16", "0"}, which_own}));
  clock_.times = {{"p at all", 0}};
  EXPECT_THROW(timed({step(0, {"other"})}), Error);
  clock_.times = {{"n 0", 0}};
  EXPECT_EQ(timed({step(0, {"nothing"})}), (Found{{"a machine", "p 4 16", "0"}, which_own}));
}

TEST_F(Timed, AKernelIsComparedWithItsKnownChoice) {
  clock_.times = {{"p 0", 1000}, {"p 1", 100}, {"p 3", 950}, {"o 0", 900}, {"o 1", 910}, {"o 2", 910}};
  const Timing known{"a machine", "p 4 16", "3"};
  EXPECT_EQ(timed({step(0, {"other"})}, {known}), (Found{{"a machine", "o 4 16", "0"}, {"the device", "which of 0", "other"}}));
  EXPECT_EQ(std::count(clock_.done.begin(), clock_.done.end(), "p 1"), 0);
  // If the fastest kernel is known, only the choices of the plan's own kernel are timed.
  const Timing which{"the device", "which of 0", "own"};
  plan::TimedStep one = step(0);
  one.problem = which.problem;
  EXPECT_EQ(timed({one}, {which}), (Found{which, {"a machine", "p 4 16", "1"}}));
}

// Also of those that are dropped because they take far longer; not of those that fail.
TEST_F(Timed, WhatEachChoiceTakesIsTold) {
  clock_.times = {{"p 0", 1000}, {"p 1", 700}, {"p 2", 9000}, {"p 3", 0}, {"o 0", 1100}, {"o 1", 0}, {"o 2", 800}};
  EXPECT_EQ(told({step(0, {"other"})}), (std::vector<std::string>{"which of 0: other 0, 1100 ns", "which of 0: other 2, 800 ns", "which of 0: own 0, 1000 ns",
                                                                  "which of 0: own 1, 700 ns", "which of 0: own 2, 9000 ns"}));
}

TEST_F(Timed, WeightsAreReadFromMemoryAndNotFromTheCache) {
  timed({step(0)});
  EXPECT_LE(clock_.weights.size(), 2u);  // without a cache: one place for the first look, one for timing
  clock_ = {};
  device->has.cache = size_t{1} << 16;
  timed({step(0)});
  EXPECT_GT(clock_.weights.size(), 4u);
}

TEST_F(Timed, StepsThatDoNotFitAreNotTimed) {
  device->has.free = 100;
  EXPECT_EQ(timed({step(0), step(1)}), Found{});
  EXPECT_TRUE(clock_.done.empty());
}

TEST_F(Timed, StepsOfAnotherTargetAreSkipped) {
  plan::TimedStep other = step(0);
  other.target = 1;
  EXPECT_EQ(timed({other}), Found{});
}

}  // namespace
}  // namespace ingot::runtime
