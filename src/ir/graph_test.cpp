#include "ir/graph.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"
#include "ir/compose.h"
#include "ir/symbols.h"

namespace ingot::ir {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

// A graph with one of everything that the text form must keep.
Graph sample() {
  Graph g;
  g.symbols = {{"B", 1, 8, 64}, {"sequence length", 0, 16, INT64_MAX}};
  Dim B = Dim::symbol(0), S = Dim::symbol(1);
  g.current_origin = g.add_origin({"dir/model \"x\".py", 12, "x = f(\"y\\n\")\t# π", "encoder.layer.0", "aten.add.Tensor", "add_1"});
  g.current_group = 3;
  Handle x(&g, g.add_input("x", {DType::f32, {B, S, 16}}));
  Weight tied;
  tied.name = "emb.weight";
  tied.order = {1, 0};
  Handle w(&g, g.add_weight(std::move(tied), {DType::f32, {16, 4}}));
  Weight head;
  head.name = "head.weight";
  head.tied_to = "emb.weight";
  head.mutated = true;
  g.add_weight(std::move(head), {DType::f32, {16, 4}});
  Handle y = matmul(x, w) * 0.1 + inf;
  g.current_origin = none_id;
  g.current_group = 0;
  y = pad(y, {0, 1, 0}, {0, 0, 2}, -inf);
  y = slice(y, 1, {}, Dim(-1), 1);
  auto [values, indices] = topk(y, 2, -1, true, true);
  Handle n = literal(g, -0.0, DType::f64);
  Handle size = literal(g, S, DType::i64);
  g.outputs.push_back({values.id(), "values", {2, 0, 1}});
  g.outputs.push_back({indices.id(), "", {}});
  g.outputs.push_back({n.id(), "n", {}});
  g.outputs.push_back({size.id(), "size", {}});
  g.checks.push_back({B * S, floordiv(S, 2) - B, Check::less_equal, 0, "because \\ of \"this\""});
  return g;
}

TEST(Graph, PrintsAndParsesBack) {
  Graph g = sample();
  std::string text = print(g);
  Graph back = parse(text);
  EXPECT_EQ(print(back), text);
  ASSERT_EQ(back.nodes.size(), g.nodes.size());
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    EXPECT_EQ(back.nodes[n].op, g.nodes[n].op);
    EXPECT_EQ(back.nodes[n].attributes, g.nodes[n].attributes) << n;
    EXPECT_EQ(back.nodes[n].origin, g.nodes[n].origin);
    EXPECT_EQ(back.nodes[n].group, g.nodes[n].group);
    EXPECT_EQ(back.type(back.nodes[n].out[0]), g.type(g.nodes[n].out[0]));
  }
  EXPECT_EQ(back.origins, g.origins);
  EXPECT_EQ(back.weights[0].order, (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(back.given_dims(back.weights[0]), (Dims{4, 16}));
  EXPECT_EQ(back.weights[1].tied_to, "emb.weight");
  EXPECT_TRUE(back.weights[1].mutated);
  EXPECT_EQ(back.outputs[0].order, (std::vector<int64_t>{2, 0, 1}));
  ASSERT_EQ(back.checks.size(), g.checks.size());
  EXPECT_EQ(back.checks.back().left, g.checks.back().left);
  EXPECT_EQ(back.checks.back().why, g.checks.back().why);
  EXPECT_EQ(back.symbols[1].name, "sequence length");
}

TEST(Graph, EveryAttributeReadsBack) {
  Graph g;
  g.symbols = {{"B", 1, 8, 64}};
  Dim B = Dim::symbol(0);
  ValueId x = g.add_input("x", {DType::i64, {B}});
  AffineMap fill;
  fill.dims = {B, 3};
  fill.axes = {{B - 1, {{0, -1}, {1, 2}}}};
  fill.fill = Scalar(true);
  Attributes a{{"target", "aten.x"},
               {"none", Attribute()},
               {"yes", true},
               {"min", INT64_MIN},
               {"tiny", 5e-324},
               {"third", 1.0 / 3},
               {"big", 1e300},
               {"whole", 3.0},
               {"zero", -0.0},
               {"inf", -inf},
               {"text", std::string("a\"\\\n\x01\x7f\0é", 8)},
               {"type", DType::bf16},
               {"dim", B * B - 7},
               {"constant", Dim(3)},
               {"ref", Ref{0}},
               {"map", fill},
               {"list", List{List{}, List{Ref{0}, Attribute()}, "q", 2, B}}};
  g.add(Op::call, {x}, a, {DType::i64, {}});
  std::string text = print(g);
  Graph back = parse(text);
  EXPECT_EQ(print(back), text);
  EXPECT_EQ(back.nodes[1].attributes, a);
  EXPECT_TRUE(std::signbit(back.nodes[1].attributes.number("zero")));
  EXPECT_TRUE(std::isnan(std::get<double>(parse("ingot-graph 1\n%0 = call() {n=nan, target=\"t\"} : f32[]\n").nodes[0].attributes.at("n").value)));
}

TEST(Graph, ConstantsAreEqualByTypeAndBits) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(Scalar(nan), Scalar(nan));
  EXPECT_NE(Scalar(nan), Scalar(-nan));
  EXPECT_NE(Scalar(0.0), Scalar(-0.0));
  EXPECT_NE(Scalar(1), Scalar(1.0));
  EXPECT_NE(Scalar(1), Scalar(true));
  auto list = [](double v) { return Attribute(List{Attribute(List{Attribute(v)})}); };
  EXPECT_EQ(list(nan), list(nan));
  EXPECT_NE(list(0.0), list(-0.0));
  auto filled = [](double v) {
    AffineMap map;
    map.fill = v;
    return Attributes{{"map", map}};
  };
  EXPECT_EQ(filled(nan), filled(nan));
  EXPECT_NE(filled(0.0), filled(-0.0));
  for (double v : {nan, -nan, 0.0, -0.0}) {
    Graph g;
    g.add(Op::call, {}, {{"target", "aten.x"}, {"v", v}}, {DType::f32, {}});
    EXPECT_EQ(parse(print(g)).nodes[0].attributes, g.nodes[0].attributes) << v;
  }
}

TEST(Graph, InputsKeepTheirOrder) {
  Graph g;
  g.add_input("a", {DType::f32, {1}});
  g.add_input("b", {DType::f32, {2}});
  std::swap(g.inputs[0], g.inputs[1]);
  Graph back = parse(print(g));
  EXPECT_EQ(back.inputs[0].name, "b");
  EXPECT_EQ(print(back), print(g));
}

TEST(Graph, DamagedTextIsAnError) {
  auto refused = [](const std::string& body) {
    try {
      parse("ingot-graph 1\nsymbol B 1 8 64\n" + body);
    } catch (const Error& e) {
      EXPECT_EQ(e.code, Code::format) << body;
      return e.message;
    }
    ADD_FAILURE() << "accepted: " << body;
    return std::string();
  };
  EXPECT_EQ(refused("%0 = nonsense() {} : f32[]\n"), "graph text, line 3: unknown operation \"nonsense\"");
  EXPECT_EQ(refused("%1 = exp(%0) {} : f32[]\n"), "graph text, line 3: value %0 is not made before");
  EXPECT_EQ(refused("%0 = input() {} : f32[]\n"), "graph text, line 3: attribute \"name\" is missing");
  EXPECT_EQ(refused("%0 = input() {name=\"x\"} : f32[Q]\n"), "graph text, line 3: unknown size \"Q\"");
  EXPECT_EQ(refused("%0 = input() {name=\"x\"} : f32[floordiv(B, 0)]\n"), "graph text, line 3: a size is divided by zero");
  EXPECT_EQ(refused("%0 = input() {name=\"x\"} : f32[-1]\n"), "graph text: graph is broken at node 0 (input): axis 0 of its result has the size -1");
  EXPECT_EQ(refused("%0 = input() {name=\"x\"} : f32[2]\n%1 = exp(%0) {} : f32[3]\n"),
            "graph text: graph is broken at node 1 (exp): axis 0 of its result has size 2, recorded as 3");
  EXPECT_EQ(refused("symbol B 1 2 3\n"), "graph text, line 3: a symbol named twice");
  EXPECT_EQ(refused("symbol C 3 2 1\n"), "graph text: graph is broken: size \"C\" has the range 3..2..1");
  EXPECT_THROW(parse(""), Error);
  EXPECT_THROW(parse("ingot-graph 2\n"), Error);
  EXPECT_THROW(parse(std::string("ingot-graph 1\0\n", 15)), Error);
}

// Changed, cut and shuffled text is read or refused, and never anything else.
TEST(Graph, MutatedTextNeverCrashes) {
  std::string text = print(sample());
  std::mt19937 random(3);
  auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  int read = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string t = text;
    for (size_t edits = 1 + below(3); edits-- > 0;) {
      size_t at = below(t.size());
      switch (below(4)) {
        case 0: t[at] = static_cast<char>(random()); break;
        case 1: t.erase(at, 1 + below(8)); break;
        case 2: t.insert(at, t.substr(below(t.size()), 1 + below(30))); break;
        default: t[at] = "0123456789-+*[]<>(){}%,\"B"[below(25)]; break;
      }
    }
    try {
      Graph g = parse(t);
      EXPECT_EQ(print(parse(print(g))), print(g));
      ++read;
    } catch (const Error& e) {
      EXPECT_EQ(e.code, Code::format) << e.message;
    }
  }
  EXPECT_GT(read, 100);
  EXPECT_LT(read, 19000);
}

TEST(Graph, VerifierNamesWhatIsBroken) {
  auto broken = [](auto change) {
    Graph g = sample();
    verify(g, Level::canonical);
    change(g);
    try {
      verify(g, Level::canonical);
    } catch (const Error& e) {
      return e.message;
    }
    return std::string("nothing");
  };
  auto ends = [](const std::string& s, const char* end) { return s.ends_with(end) ? std::string(end) : s; };
  EXPECT_EQ(ends(broken([](Graph& g) { std::swap(g.nodes[3], g.nodes[4]); }), "names another producer"), "names another producer");
  EXPECT_EQ(ends(broken([](Graph& g) { g.nodes.back().in = {999}; }), "operand 999 does not exist"), "operand 999 does not exist");
  EXPECT_EQ(broken([](Graph& g) { g.outputs[0].order = {0, 0, 1}; }), "graph is broken: the order of output \"values\" is not a permutation of its axes");
  EXPECT_EQ(broken([](Graph& g) { g.inputs.clear(); }), "graph is broken: 0 inputs are listed, 1 exist");
  EXPECT_EQ(broken([](Graph& g) { g.checks.back().left = Dim::symbol(9); }), "graph is broken: size 9 of 2 does not exist");
  EXPECT_EQ(ends(broken([](Graph& g) { g.values[g.nodes[3].out[0]].type.dtype = DType::f64; }), "recorded as f64"), "recorded as f64");
  EXPECT_EQ(ends(broken([](Graph& g) { g.nodes[3].op = Op::call; }), "an ATen row in a canonical graph"), "an ATen row in a canonical graph");
}

// Sizes count wherever they stand: a graph without symbols, as prepare's, has none in a literal, a map or its fill.
TEST(Graph, SizesOfANodeAreFoundWhereverTheyStand) {
  const Dim n = Dim::symbol(0);
  auto graph_with = [&](auto&& add) {
    Graph g;
    g.symbols = {{"n", 1, 4, 8}};
    Handle x(&g, g.add_input("x", {DType::i64, {4}}));
    add(g, x);
    g.outputs.push_back({g.nodes.back().out[0], "y", {}});
    verify(g, Level::canonical);
    return g;
  };
  AffineMap moved = slice_map({4}, 0, n, 4, 1), filled = slice_map({4}, 0, -1, 4, 1);
  filled.fill.emplace(n);
  const Graph graphs[] = {
      graph_with([&](Graph& g, Handle) { literal(g, n, DType::i64); }), graph_with([&](Graph& g, Handle) { g.add(Op::size, {}, {{"dim", n}}, {DType::i64, {}}); }),
      graph_with([&](Graph& g, Handle) { index(g, {n, 2}, 1); }),       graph_with([&](Graph&, Handle x) { view(x, moved); }),
      graph_with([&](Graph&, Handle x) { view(x, filled); }),           graph_with([&](Graph&, Handle x) { expand(x, {n, 4}); }),
  };
  for (Graph g : graphs) {
    EXPECT_TRUE(reads_symbol(g, g.nodes.back())) << print(g);
    EXPECT_FALSE(used_symbols(g, g.nodes.back()).empty());
    EXPECT_FALSE(reads_symbol(g, g.nodes.front()));
    g.symbols.clear();
    EXPECT_THROW(verify(g, Level::canonical), Error) << print(g);
  }
}

TEST(Graph, UnusedNodesGo) {
  Graph g = sample();
  size_t nodes = g.nodes.size();
  Handle x(&g, g.inputs[0].value);
  Handle spare = exp(x);
  exp(spare);
  g.remove_unused();
  EXPECT_EQ(g.nodes.size(), nodes - 1);  // the tied head is read by nobody
  EXPECT_EQ(g.weights.size(), 1u);
  verify(g, Level::canonical);
  g.replace_uses(g.outputs[0].value, x.id());
  g.remove_unused();
  EXPECT_EQ(g.inputs.size(), 1u);
  verify(g, Level::canonical);
}

// Stages print, parse and verify whole models after every pass.
TEST(Graph, TwoThousandNodesAreQuick) {
  Graph g;
  g.symbols = {{"B", 1, 8, 64}, {"S", 1, 16, 512}};
  using clock = std::chrono::steady_clock;
  auto ms = [](clock::time_point from) { return std::chrono::duration<double, std::milli>(clock::now() - from).count(); };
  clock::time_point start = clock::now();
  Handle x(&g, g.add_input("x", {DType::f32, {Dim::symbol(0), Dim::symbol(1), 64}}));
  while (g.nodes.size() < 2000) {
    g.current_origin = g.add_origin({"model.py", static_cast<int>(g.nodes.size()), "y = self.f(x)", "encoder.layer", "aten.mul", "mul"});
    Handle h = permute(reshape(x, {Dim::symbol(0), Dim::symbol(1), 4, 16}), {0, 2, 1, 3});
    h = exp(h - amax(h, {-1}, keep)) * 0.5;
    x = reshape(permute(h, {0, 2, 1, 3}), {Dim::symbol(0), Dim::symbol(1), -1}) + x;
  }
  g.outputs.push_back({x.id(), "y", {}});
  double built = ms(start);
  start = clock::now();
  verify(g, Level::canonical);
  double verified = ms(start);
  start = clock::now();
  std::string text = print(g);
  double printed = ms(start);
  start = clock::now();
  Graph back = parse(text);
  double parsed = ms(start);
  RecordProperty("ms", fmt::format("build {:.1f}, verify {:.1f}, print {:.1f}, parse {:.1f}", built, verified, printed, parsed));
  fmt::print("2000 nodes: build {:.1f} ms, verify {:.1f} ms, print {:.1f} ms, parse {:.1f} ms\n", built, verified, printed, parsed);
  // Ten times what they take, so that a quadratic pass is seen and a busy machine is not.
  EXPECT_LT(built, 500);
  EXPECT_LT(verified, 500);
  EXPECT_LT(printed, 500);
  EXPECT_LT(parsed, 500);
  EXPECT_EQ(back.nodes.size(), g.nodes.size());
}

// Numbers of a damaged file: an error, not a wrapped stride.
TEST(graph, views_of_views_beyond_64_bits) {
  const AffineMap far{{Dim(2)}, {{Dim(0), {{0, int64_t{1} << 40}}}}, std::nullopt};
  EXPECT_THROW(compose(far, far), Error);
  const AffineMap twice{{Dim(2)}, {{Dim(0), {{0, 3}}}, {Dim(0), {{0, int64_t{1} << 62}}}}, std::nullopt};
  const AffineMap both{{Dim(2), Dim(2)}, {{Dim(0), {{0, int64_t{1} << 62}, {1, 1}}}}, std::nullopt};
  EXPECT_THROW(compose(twice, both), Error);
}

}  // namespace
}  // namespace ingot::ir
