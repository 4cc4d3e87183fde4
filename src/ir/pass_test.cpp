// What runs pipelines: order, verification, reports, INGOT_DISABLE.
#include "ir/pass.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "ir/compose.h"

namespace ingot::ir {
namespace {

void negate(Graph& g, const double& times) {
  for (int i = 0; i < times; ++i) g.outputs[0].value = (-Handle(&g, g.outputs[0].value)).id();
}
void square(Graph& g, const double&) {
  const Handle x(&g, g.outputs[0].value);
  g.outputs[0].value = (x * x).id();
}
void spoil(Graph& g, const double&) { g.values[g.outputs[0].value].type.dims.push_back(3); }

Graph identity_graph() {
  Graph g;
  g.outputs.push_back({g.add_input("x", {DType::f32, {2}}), "y", {}});
  return g;
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.message;
  }
  return "no error";
}

class Passes : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv("INGOT_DISABLE"); }
  const std::vector<Pass<double>> list_ = {{{"negate", "takes the negative"}, negate}, {{"square", "takes the square", true}, square}};
};

TEST_F(Passes, RunInOrderWithWhatTheyAreGiven) {
  Graph g = identity_graph();
  std::string seen;
  run_passes(g, list_, [&](std::string_view name, double seconds, const Graph& after) { seen += fmt::format("{} {} {}\n", name, seconds >= 0, after.nodes.size()); }, 2.0);
  EXPECT_EQ(seen, "negate true 3\nsquare true 4\n");
}

TEST_F(Passes, AreLeftOutByName) {
  setenv("INGOT_DISABLE", ",negate,", 1);
  const std::vector<PassInfo> all(list_.begin(), list_.end());
  check_disabled(all);
  Graph g = identity_graph();
  run_passes(g, list_, {}, 2.0);
  EXPECT_EQ(g.nodes.size(), 2u);
  setenv("INGOT_DISABLE", "negate,square", 1);
  EXPECT_EQ(message_of([&] { check_disabled(all); }), "INGOT_DISABLE names \"square\", which cannot be left out: takes the square");
  setenv("INGOT_DISABLE", "root", 1);
  EXPECT_EQ(message_of([&] { check_disabled(all); }), "INGOT_DISABLE names \"root\", which is not a pass");
}

TEST_F(Passes, AreVerified) {
  Graph g = identity_graph();
  const std::vector<Pass<double>> broken = {list_[0], {{"spoil", "changes a type alone"}, spoil}};
  EXPECT_NE(message_of([&] { run_passes(g, broken, {}, 1.0); }).find("graph is broken"), std::string::npos);
}

}  // namespace
}  // namespace ingot::ir
