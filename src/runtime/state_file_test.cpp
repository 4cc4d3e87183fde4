// States as files: a saved state can be loaded, and nothing else can.
#include "runtime/state_file.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "compile/compile.h"

namespace ingot::runtime {
namespace {

const float first_total[] = {1, 2, 3};
const int64_t first_calls[] = {5};

// Counts calls and sums x.
std::shared_ptr<Weights> counting(const char* total = "total") {
  ir::Graph g =
      ir::parse(fmt::format("ingot-graph 1\n%0 = input() {{name=\"x\"}} : f32[3]\n%1 = weight() {{name=\"{}\"}} : f32[3]\n%2 = weight() {{name=\"calls\"}} : i64[1]\n"
                            "%3 = add(%1, %0) {{}} : f32[3]\n%4 = add(%2, %2) {{}} : i64[1]\noutput %3 \"y\" []\noutput %4 \"n\" []\n",
                            total));
  g.weights[0].data = reinterpret_cast<const std::byte*>(first_total);
  g.weights[0].bytes = sizeof first_total;
  g.weights[1].data = reinterpret_cast<const std::byte*>(first_calls);
  g.weights[1].bytes = sizeof first_calls;
  for (ir::Weight& w : g.weights) w.mutated = true;
  g.outputs.push_back({g.outputs[0].value, total, {}, ir::Output::To::weight});
  g.outputs.push_back({g.outputs[1].value, "calls", {}, ir::Output::To::weight});
  return std::make_shared<Weights>(std::make_shared<plan::Plan>(compile::compile(g, {})), 1);
}

std::shared_ptr<State> made(const std::shared_ptr<Weights>& weights) {
  auto state = std::make_shared<State>(weights, system_allocator(), State::Of::shared);
  state->begin();
  return state;
}

struct Values {
  float total[3];
  int64_t calls;
  bool operator==(const Values&) const = default;
};

Values values(State& state) {
  Values out{};
  state.copy(0, out.total, sizeof out.total, true);
  state.copy(1, &out.calls, sizeof out.calls, true);
  return out;
}

void write(State& state, Values v) {
  state.copy(0, v.total, sizeof v.total, false);
  state.copy(1, &v.calls, sizeof v.calls, false);
}

class StateFile : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/ingot_state_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    path_ = folder_ + "/a.safetensors";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string text() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void put(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  // Loads it; this must fail.
  std::string refused(State& state) const {
    try {
      load(state, path_);
    } catch (const Error& e) {
      EXPECT_EQ(e.code, Code::format);
      EXPECT_NE(e.remedy, "");
      return e.message;
    }
    return "no error";
  }
  std::string folder_, path_;
};

TEST_F(StateFile, IsWhatItWas) {
  auto weights = counting();
  auto a = made(weights), b = made(counting());  // as if from another process
  const Values saved{{7, 8, 9}, 10};
  write(*a, saved);
  save(*a, path_);
  write(*a, {{0, 0, 0}, 0});
  load(*b, path_);
  EXPECT_EQ(values(*b), saved);
  auto empty = std::make_shared<State>(weights, system_allocator(), State::Of::shared);
  load(*empty, path_);
  EXPECT_EQ(values(*empty), saved);
  const std::string header = R"({"total":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},"calls":{"dtype":"I64","shape":[1],"data_offsets":[12,20]}})";
  EXPECT_EQ(text().substr(8, header.size()), header);
  EXPECT_EQ(text().size() % 8, 4u);
}

TEST_F(StateFile, AnyOtherFileChangesNothing) {
  auto state = made(counting());
  const Values before = values(*state);
  auto other = made(counting("sum"));
  write(*state, {{7, 8, 9}, 10});
  save(*state, path_);
  write(*state, before);
  const std::string good = text();
  const size_t header = good.size() - sizeof first_total - sizeof first_calls;
  for (size_t length = 0; length < good.size(); ++length) {
    put(good.substr(0, length));
    EXPECT_NE(refused(*state), "no error") << length;
  }
  put(good + "x");
  EXPECT_EQ(refused(*state), path_ + " has 21 bytes of values, and a state like this one has 20");
  for (size_t at = 0; at < header; ++at) {
    std::string damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    put(damaged);
    EXPECT_EQ(refused(*state), path_ + " is not a saved state with the entries of this one") << at;
  }
  save(*other, path_);
  EXPECT_EQ(refused(*state), path_ + " is not a saved state with the entries of this one");
  EXPECT_EQ(values(*state), before);
  put(good);
  State::Use use(*state);
  EXPECT_THROW(load(*state, path_), Error);
  EXPECT_THROW(save(*state, path_), Error);
}

TEST_F(StateFile, OfTheCallersMemory) {
  auto state = made(counting());
  float wide[] = {4, 0, 5, 0, 6, 0};
  const int64_t dims[] = {3}, strides[] = {2};
  state->bind(0, {wide, ir::DType::f32, 1, dims, strides});
  save(*state, path_);
  wide[0] = wide[2] = wide[4] = 0;
  load(*state, path_);
  EXPECT_EQ(wide[0] + wide[2] * 10 + wide[4] * 100, 654);
  EXPECT_EQ(wide[1] + wide[3] + wide[5], 0);
}

}  // namespace
}  // namespace ingot::runtime
