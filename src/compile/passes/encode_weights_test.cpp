// encode_weights: the numbers that weights become, and plans of encoded weights.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compile/encodings/encoding.h"
#include "compile/graph_run_test.h"
#include "compile/passes/passes.h"
#include "ir/compose.h"

namespace ingot::compile {
namespace {

using namespace ir;

Graph linear(DType type, int64_t k, int64_t n) {
  Graph g;
  const Handle x(&g, g.add_input("x", {type, {3, k}}));
  Weight w;
  w.name = "w";
  const Handle weight(&g, g.add_weight(std::move(w), {type, {n, k}}));
  const Handle y = matmul(x, transpose(weight, 0, 1));
  g.outputs.push_back({y.id(), "y", {}});
  return g;
}

Array floats(std::vector<int64_t> dims, const std::vector<float>& values) {
  Array a = Array::empty(DType::f32, std::move(dims));
  std::memcpy(a.bytes.data(), values.data(), a.bytes.size());
  return a;
}

std::vector<float> values(const Array& a) {
  std::vector<float> out(static_cast<size_t>(a.numel()));
  std::memcpy(out.data(), a.bytes.data(), a.bytes.size());
  return out;
}

// Encoded for the CPU, by option weight_dtype.
Graph encoded(Graph g, const char* weight_dtype) {
  Options options;
  options.set("weight_dtype", weight_dtype);
  encode_weights(g, backend_for({}, options));
  return g;
}

// The weight as the GEMM of the encoded graph reads it.
std::vector<float> decoded(const std::vector<float>& weight, int64_t n) {
  const auto k = static_cast<int64_t>(weight.size()) / n;
  Graph g = linear(DType::f32, k, n);
  Array given = floats({n, k}, weight);
  g.weights[0].data = given.bytes.data();
  g.weights[0].bytes = given.bytes.size();
  g = encoded(std::move(g), "int8");
  ir::verify(g, Level::canonical);
  for (const Node& node : g.nodes) {
    if (node.op == Op::matmul) g.outputs[0] = {node.in[1], "b", {}};
  }
  const Array x = floats({3, k}, std::vector<float>(static_cast<size_t>(3 * k), 1.0f));
  std::vector<float> b = values(interpret(g, std::span(&x, 1)).at(0)), rows(b.size());
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t j = 0; j < n; ++j) rows[static_cast<size_t>(j * k + i)] = b[static_cast<size_t>(i * n + j)];
  }
  return rows;
}

TEST(Encode, Int8RoundsHalfToEvenOfEachChannel) {
  // Scales 1 and 2.
  EXPECT_EQ(decoded({127, 0.5f, 1.5f, 2.5f, -2.5f, 3.4f, 254, 1, 3, -1, -3, 100.5f}, 2), (std::vector<float>{127, 0, 2, 2, -2, 3, 254, 0, 4, 0, -4, 100}));
}

TEST(Encode, Int8OfZerosAndOfTheSmallestNumbers) {
  EXPECT_EQ(decoded({0, -0.0f, 0, 127, 1, -127}, 2), (std::vector<float>{0, 0, 0, 127, 1, -127}));
  const float least = std::numeric_limits<float>::denorm_min();
  for (float v : decoded({least, -least, 0}, 1)) EXPECT_EQ(v, 0);  // the scale is 0
  const float small = std::ldexp(1.0f, -130);
  for (float v : decoded({small, -small}, 1)) EXPECT_NEAR(std::abs(v), small, small / 100);
}

TEST(Encode, AChannelWithNanOrInfinityIsNanAndItsNeighboursAreNot) {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    const std::vector<float> w = decoded({1, bad, 0, 127, 1, -127}, 2);
    EXPECT_TRUE(std::isnan(w[0]) && std::isnan(w[2])) << bad;
    EXPECT_EQ((std::vector<float>(w.begin() + 3, w.end())), (std::vector<float>{127, 1, -127}));
  }
}

TEST(Encode, WhatIsConstantAndNoWeightOfAGemmStays) {
  ASSERT_NE(find_encoding("int8"), nullptr);
  EXPECT_EQ(find_encoding("none"), nullptr);
  // float64, and a product of two inputs.
  Graph wide = linear(DType::f64, 8, 4);
  EXPECT_EQ(print(encoded(wide, "int8")), print(wide));
  Graph g;
  const Handle a(&g, g.add_input("a", {DType::f32, {3, 8}})), b(&g, g.add_input("b", {DType::f32, {8, 4}}));
  g.outputs.push_back({matmul(a, b).id(), "y", {}});
  EXPECT_EQ(print(encoded(g, "int8")), print(g));
  // A buffer that the model writes.
  Graph state = linear(DType::f32, 8, 4);
  const Handle w(&state, state.weights[0].value);
  state.outputs.push_back({(w + Operand(1)).id(), "w", {}, Output::To::weight});
  EXPECT_EQ(print(encoded(state, "int8")), print(state));
}

int count(const Graph& g, Op op) {
  return static_cast<int>(std::count_if(g.nodes.begin(), g.nodes.end(), [&](const Node& n) { return n.op == op; }));
}

TEST(Encode, AWeightOfTwoGemmsIsEncodedOnceAndPartsOfAConcatenationEachByItself) {
  Graph shared = linear(DType::f32, 8, 8);
  const Handle y(&shared, shared.outputs[0].value), w(&shared, shared.weights[0].value);
  shared.outputs[0].value = matmul(y, w).id();  // by rows, not by columns
  EXPECT_EQ(count(encoded(shared, "int8"), Op::round), 2);
  shared.outputs[0].value = matmul(y, transpose(w, 0, 1)).id();
  shared.remove_unused();
  EXPECT_EQ(count(encoded(shared, "int8"), Op::round), 1);
  Graph joined;
  const Handle x(&joined, joined.add_input("x", {DType::f32, {3, 8}}));
  std::vector<Handle> parts;
  for (const char* name : {"q", "k"}) {
    Weight part;
    part.name = name;
    parts.emplace_back(&joined, joined.add_weight(std::move(part), {DType::f32, {4, 8}}));
  }
  joined.outputs.push_back({matmul(x, transpose(concat(parts, 0), 0, 1)).id(), "y", {}});
  const Graph made = encoded(joined, "int8");
  EXPECT_EQ(count(made, Op::round), 2);
  for (const Node& n : made.nodes) {
    if (n.op == Op::concat) {
      const DType type = made.type(n.out[0]).dtype;
      EXPECT_TRUE(type == DType::i8 || product(made.type(n.out[0]).dims) == Dim(8));  // numbers, and scales
    }
  }
}

// Forms that models use: the scale before or after the transpose or missing, and merged layers.
TEST(Encode, WeightsThatAModelEncodedItself) {
  struct {
    const char* what;
    bool scaled;
    Handle (*b)(Handle q, Handle s);
  } const forms[] = {
      {"rows scaled", true, [](Handle q, Handle s) { return transpose(cast(q, DType::f16) * s, 0, 1); }},
      {"columns scaled", true, [](Handle q, Handle s) { return cast(transpose(q, 0, 1), DType::f16) * reshape(s, {6}); }},
      {"scale in front", true, [](Handle q, Handle s) { return transpose(s * cast(q, DType::f16), 0, 1); }},
      {"without a scale", false, [](Handle q, Handle) { return transpose(cast(q, DType::f16), 0, 1); }},
      {"two layers", false, [](Handle q, Handle) { return transpose(concat({cast(q, DType::f16), cast(q, DType::f16)}, 0), 0, 1); }},
  };
  for (const auto& form : forms) {
    SCOPED_TRACE(form.what);
    Graph g;
    const Handle x(&g, g.add_input("x", {DType::f16, {3, 8}}));
    Weight numbers, scale;
    numbers.name = "q";
    scale.name = "s";
    const Handle q(&g, g.add_weight(std::move(numbers), {DType::i8, {6, 8}})), s(&g, g.add_weight(std::move(scale), {DType::f16, {6, 1}}));
    g.outputs.push_back({matmul(x, form.b(q, s)).id(), "y", {}});
    g.remove_unused();
    const Graph made = encoded(g, "none");
    for (const Node& n : made.nodes) {
      if (n.op != Op::matmul) continue;
      const auto b = encoded_b(made, n);
      ASSERT_TRUE(b);
      EXPECT_EQ(b->scale != none_id, form.scaled);
      EXPECT_TRUE(is_scaled_by_column(b->encoding));
    }
    std::mt19937 random(1);
    add_weights(g, random);
    auto plan = std::make_shared<plan::Plan>(compile(g, Options()));
    plan::verify(*plan);
    // Prepare packs the integers and does not decode them.
    for (const plan::Step& step : plan->targets[0].prepare.programs[0].steps) {
      EXPECT_TRUE(step.kernel != "matmul_pack" || step.operands[1].dtype == DType::i8);
    }
    EXPECT_EQ(plan->targets[0].derived.size(), 1u);
    run_and_compare(g, plan, random, "cpu");
  }
}

// Scales that vary along K are not scales of columns: B stays as it is.
TEST(Encode, OtherScalesAreNot) {
  Graph g;
  const Handle x(&g, g.add_input("x", {DType::f16, {3, 8}}));
  Weight numbers, scale;
  numbers.name = "q";
  scale.name = "s";
  const Handle q(&g, g.add_weight(std::move(numbers), {DType::i8, {6, 8}})), s(&g, g.add_weight(std::move(scale), {DType::f16, {1, 8}}));
  g.outputs.push_back({matmul(x, transpose(cast(q, DType::f16) * s, 0, 1)).id(), "y", {}});
  EXPECT_EQ(print(encoded(g, "none")), print(g));
  std::mt19937 random(1);
  add_weights(g, random);
  run_and_compare(g, std::make_shared<plan::Plan>(compile(g, Options())), random, "cpu");
}

}  // namespace
}  // namespace ingot::compile
