// Passes tested by data (ir/pass_cases_test.h), and what lower makes of captured graphs.
#include "lower/lower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.h"
#include "capture/capture.h"
#include "ir/half.h"
#include "ir/pass_cases_test.h"

namespace ingot::lower {
namespace {

const std::string folder = std::string(INGOT_SOURCE_DIR) + "/src/lower/testdata/";

// `rounds_less`: half values may differ by a few roundings of what is below 1.
void expect_same(const ir::Array& x, const ir::Array& y, bool rounds_less) {
  ASSERT_EQ(x.dims, y.dims);
  ASSERT_EQ(x.dtype, y.dtype);
  if (rounds_less && x.dtype == ir::DType::f16) {
    for (int64_t k = 0; k < x.numel(); ++k) {
      uint16_t a, b;
      std::memcpy(&a, x.bytes.data() + 2 * k, 2);
      std::memcpy(&b, y.bytes.data() + 2 * k, 2);
      ASSERT_NEAR(ir::f16_to_float(a), ir::f16_to_float(b), 4 * 4.9e-4) << "element " << k;
    }
    return;
  }
  if (x.dtype != ir::DType::f32) {
    EXPECT_EQ(x.bytes, y.bytes);
    return;
  }
  for (int64_t k = 0; k < x.numel(); ++k) {
    float a, b;
    std::memcpy(&a, x.bytes.data() + 4 * k, 4);
    std::memcpy(&b, y.bytes.data() + 4 * k, 4);
    // Joined sums come in another order: a few roundings of sums of 16 products below 4.
    ASSERT_NEAR(a, b, 16 * 4 * 4 * 1.2e-7) << "element " << k;
  }
}

class PassTest : public ::testing::TestWithParam<std::string> {};

TEST_P(PassTest, Cases) {
  const auto pass = std::find_if(passes().begin(), passes().end(), [](const Pass& p) { return p.name == GetParam(); });
  ASSERT_NE(pass, passes().end());
  const bool rounds_less = pass->name == "match_attention";
  ir::test_cases(folder, GetParam(), [&](ir::Graph& g, const auto&) { pass->run(g); }, [&](const ir::Array& x, const ir::Array& y) { expect_same(x, y, rounds_less); });
}
INSTANTIATE_TEST_SUITE_P(Data, PassTest, ::testing::ValuesIn(ir::tested_passes(folder)), [](const auto& info) { return info.param; });

TEST(Lower, EachPassHasTestData) {
  std::vector<std::string> names;
  std::set<void (*)(ir::Graph&)> seen;
  for (const Pass& p : passes()) {
    if (seen.insert(p.run).second) names.emplace_back(p.name);
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(ir::tested_passes(folder), names);
}

std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.message;
  }
  return "no error";
}

ir::Graph captured(const std::string& nodes) { return ir::parse("ingot-graph 1\nsymbol B 1 4 64\n" + nodes); }

TEST(Lower, MlpBecomesThreeMatmuls) {
  capture::Model m = capture::import_archive(std::string(INGOT_SOURCE_DIR) + "/src/capture/testdata/mlp.pt2");
  ir::Graph g = lower(m.graph);
  int matmuls = 0;
  for (const ir::Node& n : g.nodes) matmuls += n.op == ir::Op::matmul;
  EXPECT_EQ(matmuls, 3);
  EXPECT_EQ(g.outputs.size(), 1u);
}

TEST(Lower, EveryMissingOperatorIsNamedWithItsLines) {
  ir::Graph g = captured(
      "origin \"net.py\" 3 \"a\" \"aten.fancy.default\" \"fancy\" \"y = fancy(x)\"\n"
      "origin \"net.py\" 9 \"b\" \"aten.fancy.default\" \"fancy_1\" \"z = fancy(y)\"\n"
      "origin \"net.py\" 11 \"\" \"aten.odd.default\" \"odd\" \"odd(z)\"\n"
      "%0 = input() {name=\"x\"} : f32[B, 4]\n"
      "%1 = call(%0) {self=&0, target=\"aten.fancy.default\"} : f32[B, 4] @0\n"
      "%2 = call(%1) {self=&0, target=\"aten.fancy.default\"} : f32[B, 4] @1\n"
      "%3 = call(%2) {self=&0, target=\"aten.odd.default\"} : f32[B, 4] @2\n"
      "output %3 \"y\" []\n");
  EXPECT_EQ(missing_operators(g).size(), 3u);
  EXPECT_EQ(message([&] { lower(g); }),
            "2 operators of the model are not supported:\n"
            "  aten.fancy.default: the operator table has no definition of it\n"
            "    at net.py:3 in a: `y = fancy(x)`\n"
            "    at net.py:9 in b: `z = fancy(y)`\n"
            "  aten.odd.default: the operator table has no definition of it\n"
            "    at net.py:11: `odd(z)`");
}

TEST(Lower, RecordedTypesAreChecked) {
  const std::string missing = "1 operator of the model is not supported:\n  aten.relu.default: a node (aten.relu.default): torch recorded ";
  const std::string infers = ", the operator table infers f32[B, 4] (a fault of ingot; please report it)";
  std::string start = "%0 = input() {name=\"x\"} : f32[B, 4]\n%1 = call(%0) {self=&0, target=\"aten.relu.default\"} : ";
  EXPECT_EQ(message([&] { expand_operators(captured(start + "f64[B, 4]\noutput %1 \"y\" []\n")); }), missing + "f64[B, 4]" + infers);
  EXPECT_EQ(message([&] { expand_operators(captured(start + "f32[B, 5]\noutput %1 \"y\" []\n")); }), missing + "f32[B, 5]" + infers);
  // Not decidable here: checked when the sizes are known.
  ir::Graph g = expand_operators(captured(start + "f32[8, 4]\noutput %1 \"y\" []\n"));
  ASSERT_EQ(g.checks.size(), 1u);
  EXPECT_EQ(g.checks[0].right, ir::Dim(8));
}

TEST(Lower, InPlaceOverloadsMakeNewValues) {
  ir::Graph g =
      expand_operators(captured("%0 = input() {name=\"x\"} : f32[B, 4]\n"
                                "%1 = call(%0) {self=&0, target=\"aten.neg.default\"} : f32[B, 4]\n"
                                "%2 = call(%1) {self=&0, target=\"aten.relu_.default\"} : f32[B, 4]\n"
                                "%3 = call(%1, %2) {other=&1, self=&0, target=\"aten.add.Tensor\"} : f32[B, 4]\n"
                                "output %3 \"y\" []\n"));
  const ir::Node& add = g.producer(g.outputs[0].value);
  EXPECT_EQ(add.op, ir::Op::add);
  EXPECT_EQ(add.in[0], add.in[1]);  // the old name reads the new value
  // What is written to an input goes there, also when nobody returns it.
  g =
      expand_operators(captured("%0 = input() {name=\"x\"} : f32[B, 4]\n"
                                "%1 = call(%0) {self=&0, target=\"aten.relu_.default\"} : f32[B, 4]\n"
                                "%2 = call(%0) {self=&0, target=\"aten.neg.default\"} : f32[B, 4]\n"
                                "output %2 \"y\" []\n"));
  ASSERT_EQ(g.outputs.size(), 2u);
  EXPECT_TRUE(g.outputs[1].to == ir::Output::To::input && g.outputs[1].name == "x");
  EXPECT_EQ(g.producer(g.outputs[1].value).op, ir::Op::relu);
  EXPECT_EQ(g.producer(g.outputs[0].value).in[0], g.outputs[1].value);
  EXPECT_EQ(ir::print(ir::parse(ir::print(g))), ir::print(g));
}

// y = x + 1; row = y[1]; column = y[:, 0]; row.mul_(10); returns y, row, column.
TEST(Lower, WritesThroughViewsReachEveryView) {
  ir::Graph g =
      expand_operators(captured("%0 = input() {name=\"x\"} : f32[2, 3]\n"
                                "%1 = call(%0) {other=1, self=&0, target=\"aten.add.Tensor\"} : f32[2, 3]\n"
                                "%2 = call(%1) {dim=0, index=1, self=&0, target=\"aten.select.int\"} : f32[3]\n"
                                "%3 = call(%1) {dim=1, index=0, self=&0, target=\"aten.select.int\"} : f32[2]\n"
                                "%4 = call(%2) {other=10, self=&0, target=\"aten.mul_.Tensor\"} : f32[3]\n"
                                "%5 = call(%3) {self=&0, target=\"aten.neg.default\"} : f32[2]\n"
                                "output %1 \"y\" []\noutput %4 \"row\" []\noutput %5 \"column\" []\n"));
  ir::Array x = ir::Array::empty(ir::DType::f32, {2, 3});
  for (int i = 0; i < 6; ++i) {
    float v = static_cast<float>(i);
    std::memcpy(x.bytes.data() + 4 * i, &v, 4);
  }
  std::vector<ir::Array> y = ir::interpret(g, std::vector<ir::Array>{x});
  auto floats = [](const ir::Array& a) {
    std::vector<float> v(static_cast<size_t>(a.numel()));
    std::memcpy(v.data(), a.bytes.data(), a.bytes.size());
    return v;
  };
  EXPECT_EQ(floats(y[0]), (std::vector<float>{1, 2, 3, 40, 50, 60}));
  EXPECT_EQ(floats(y[1]), (std::vector<float>{40, 50, 60}));
  EXPECT_EQ(floats(y[2]), (std::vector<float>{-1, -40}));
}

// y = x * 1; t = y[None].expand(3, 2, 3); a write to t, or to t[1]; returns t and y.
TEST(Lower, WritesToRepeatedElements) {
  auto written = [](const std::string& write) {
    return captured(
        "%0 = input() {name=\"x\"} : f32[2, 3]\n"
        "%1 = call(%0) {other=1, self=&0, target=\"aten.mul.Tensor\"} : f32[2, 3]\n"
        "%2 = call(%1) {dim=0, self=&0, target=\"aten.unsqueeze.default\"} : f32[1, 2, 3]\n"
        "%3 = call(%2) {self=&0, size=[3, -1, -1], target=\"aten.expand.default\"} : f32[3, 2, 3]\n" +
        write + "output %3 \"t\" []\noutput %1 \"y\" []\n");
  };
  ir::Array x = ir::Array::empty(ir::DType::f32, {2, 3});
  auto floats = [](const ir::Array& a) {
    std::vector<float> v(static_cast<size_t>(a.numel()));
    std::memcpy(v.data(), a.bytes.data(), a.bytes.size());
    return v;
  };
  auto expect = [&](const std::string& write, float number) {
    ir::Graph g = expand_operators(written(write));
    for (bool lowered : {false, true}) {
      for (const Pass& pass : passes()) {
        if (lowered) pass.run(g);
      }
      const std::vector<ir::Array> found = ir::interpret(g, std::vector<ir::Array>{x});
      EXPECT_EQ(floats(found[0]), std::vector<float>(18, number));
      EXPECT_EQ(floats(found[1]), std::vector<float>(6, number));
    }
  };
  expect("%4 = call(%3) {self=&0, target=\"aten.fill_.Scalar\", value=5} : f32[3, 2, 3]\n", 5);
  expect(
      "%4 = call(%3) {dim=0, index=1, self=&0, target=\"aten.select.int\"} : f32[2, 3]\n"
      "%5 = call(%4) {other=2, self=&0, target=\"aten.add_.Tensor\"} : f32[2, 3]\n",
      2);
  // A view of a view that was written: nothing of either write is lost.
  expect(
      "%4 = call(%3) {dim=0, index=1, self=&0, target=\"aten.select.int\"} : f32[2, 3]\n"
      "%5 = call(%4) {other=2, self=&0, target=\"aten.add_.Tensor\"} : f32[2, 3]\n"
      "%6 = call(%4) {dim=1, end=3, self=&0, start=0, step=1, target=\"aten.slice.Tensor\"} : f32[2, 3]\n"
      "%7 = call(%6) {other=2, self=&0, target=\"aten.add_.Tensor\"} : f32[2, 3]\n",
      4);
  const std::string said = message([&] { expand_operators(written("%4 = call(%3) {other=2, self=&0, target=\"aten.add_.Tensor\"} : f32[3, 2, 3]\n")); });
  EXPECT_NE(said.find("several elements at one place in memory"), std::string::npos) << said;
}

}  // namespace
}  // namespace ingot::lower
