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

// q * scale by the rule of int4: scale = (the number of greatest magnitude) / -8 as bfloat16, q = w / scale, half to even, in -8 .. 7.
TEST(Encode, Int4OfGroups) {
  Options options;
  options.set("weight_dtype", "int4");
  constexpr int64_t k = 64, n = 3;
  Graph g = linear(DType::f32, k, n);
  std::vector<float> weight(k * n);
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(i * 37 % 17) - 8;  // -8 .. 8
  for (size_t i = 0; i < 32; ++i) weight[32 + i] = 0;         // a group of zeros
  weight[2 * 64] = std::numeric_limits<float>::quiet_NaN();   // of row 2, first group
  weight[2 * 64 + 32] = std::numeric_limits<float>::infinity();
  Array given = floats({n, k}, weight);
  g.weights[0].data = given.bytes.data();
  g.weights[0].bytes = given.bytes.size();
  encode_weights(g, backend_for({}, options));
  ir::verify(g, Level::canonical);
  for (const Node& node : g.nodes) {
    if (node.op != Op::matmul) continue;
    const auto b = encoded_b(g, node);
    ASSERT_TRUE(b && b->grouped());
    EXPECT_EQ(b->encoding.block->k, 32);
    EXPECT_EQ(b->encoding.needed, 4);
    EXPECT_EQ(b->zero, none_id);
    EXPECT_EQ(g.type(b->scale), (Type{DType::bf16, {k / 32, n}}));
    g.outputs[0] = {node.in[1], "b", {}};
  }
  const Array x = floats({3, k}, std::vector<float>(3 * k, 1.0f));
  const std::vector<float> b = values(interpret(g, std::span(&x, 1)).at(0));
  for (size_t j = 0; j < n; ++j) {
    for (size_t group = 0; group < k / 32; ++group) {
      const float* w = weight.data() + j * k + group * 32;
      const bool finite = std::all_of(w, w + 32, [](float v) { return std::isfinite(v); });
      float extreme = 0;
      for (size_t i = 0; i < 32; ++i) extreme = std::abs(w[i]) > std::abs(extreme) || (std::abs(w[i]) == std::abs(extreme) && w[i] < 0) ? w[i] : extreme;
      const float scale = extreme / -8;  // of one digit here, so bfloat16 has it
      for (size_t i = 0; i < 32; ++i) {
        const float found = b[(group * 32 + i) * n + j];
        if (!finite) {
          EXPECT_TRUE(std::isnan(found)) << j << " " << group << " " << i;
        } else {
          EXPECT_EQ(found, scale == 0 ? 0 : std::clamp(std::nearbyint(w[i] / scale), -8.0f, 7.0f) * scale) << j << " " << group << " " << i;
        }
      }
    }
  }
}

// A K that no group divides stays as it is.
TEST(Encode, Int4NeedsWholeGroups) {
  const Graph g = linear(DType::f32, 48, 4);
  EXPECT_EQ(print(encoded(g, "int4")), print(g));
}

// What operators that dequantise in groups expand to: with and without zeros, in any type, as one layer or several, with a scale for more than a kernel's group. Prepare packs 4 bits for each number.
TEST(Encode, GroupsThatAModelEncodedItself) {
  struct Form {
    DType type;
    int64_t k, group, layers;
    bool zeros, clamped;
  };
  for (const Form& f : {Form{DType::f32, 96, 32, 1, true, true},
                        {DType::f16, 64, 32, 1, false, true},
                        {DType::f16, 128, 64, 1, true, true},
                        {DType::f32, 256, 256, 1, true, true},
                        {DType::f32, 64, 32, 3, true, true},
                        {DType::f32, 64, 32, 1, true, false},
                        {DType::f32, 60, 20, 1, true, true}}) {
    SCOPED_TRACE(fmt::format("{} {} by {}, {} layers, zeros {}, clamped {}", name_of(f.type), f.k, f.group, f.layers, f.zeros, f.clamped));
    Graph g;
    const Handle x(&g, g.add_input("x", {f.type, {3, f.k}}));
    std::vector<Handle> layers;
    for (int64_t layer = 0; layer < f.layers; ++layer) {
      auto weight = [&](const char* name, DType type, Dims dims) {
        Weight w;
        w.name = name + std::to_string(layer);
        return Handle(&g, g.add_weight(std::move(w), {type, std::move(dims)}));
      };
      const Dim groups = f.k / f.group;
      Handle q = weight("q", DType::i8, {6, f.k});
      const Handle s = weight("s", f.type, {6, groups}), z = weight("z", DType::i8, {6, groups});
      if (f.clamped) q = clamp(q, Operand(int64_t{-8}), Operand(int64_t{7}));
      Handle w = cast(reshape(q, {Dim(6), groups, Dim(f.group)}), f.type);
      if (f.zeros) w = w - cast(reshape(z, {Dim(6), groups, Dim(1)}), f.type);
      layers.push_back(reshape(w * reshape(s, {Dim(6), groups, Dim(1)}), {Dim(6), Dim(f.k)}));
    }
    g.outputs.push_back({matmul(x, transpose(f.layers > 1 ? concat(layers, 0) : layers[0], 0, 1)).id(), "y", {}});
    g.remove_unused();
    const bool read = f.clamped && f.group % 32 == 0;
    std::mt19937 random(1);
    add_weights(g, random);
    auto plan = std::make_shared<plan::Plan>(compile(g, Options()));
    plan::verify(*plan);
    int packed = 0;
    for (const plan::Step& step : plan->targets[0].prepare.programs[0].steps) packed += step.kernel == "matmul_pack_groups";
    EXPECT_EQ(packed, read ? 1 : 0);
    if (read) {
      ASSERT_EQ(plan->targets[0].derived.size(), 1u);
      EXPECT_LE(plan->targets[0].derived[0].bytes, static_cast<uint64_t>(32 * f.k / 2 + 32 * 5 * f.k / 32 + 4096));
    }
    run_and_compare(g, plan, random, "cpu");
    Options reference;
    reference.set("target", "reference");
    run_and_compare(g, std::make_shared<plan::Plan>(compile(g, reference)), random, "reference");
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
