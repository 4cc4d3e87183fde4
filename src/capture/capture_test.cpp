#include "capture/capture.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/error.h"
#include "capture/expression.h"
#include "capture/origin.h"

namespace ingot::capture {
namespace {

const std::string data = std::string(INGOT_SOURCE_DIR) + "/src/capture/testdata/";

std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.message + (e.remedy.empty() ? "" : " | " + e.remedy);
  }
  return "no error";
}

const ir::Node& call(const ir::Graph& g, std::string_view target) {
  for (const ir::Node& n : g.nodes) {
    if (n.op == ir::Op::call && n.attributes.string("target") == target) return n;
  }
  throw std::runtime_error("no row " + std::string(target));
}

TEST(Capture, Mlp) {
  Model m = import_archive(data + "mlp.pt2");
  const ir::Graph& g = m.graph;
  ir::verify(g, ir::Level::captured);
  ASSERT_EQ(g.inputs.size(), 1u);
  EXPECT_EQ(g.inputs[0].name, "x");
  ASSERT_EQ(g.symbols.size(), 1u);
  EXPECT_EQ(g.symbols[0].min, 1);
  EXPECT_EQ(g.symbols[0].max, 64);
  EXPECT_EQ(g.symbols[0].opt, 3);
  EXPECT_EQ(g.weights.size(), 6u);
  EXPECT_EQ(g.weights[0].name, "l1.weight");
  EXPECT_EQ(g.weights[0].bytes, 32u * 16 * 4);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(g.weights[0].data) % 64, 0u);  // in the mapped file
  const ir::Node& linear = call(g, "aten.linear.default");
  EXPECT_EQ(std::get<ir::Ref>(linear.attributes.at("weight").value).index, 1u);
  const ir::Origin& o = g.origins[linear.origin];
  EXPECT_TRUE(o.file.ends_with("make.py")) << o.file;
  EXPECT_EQ(o.code, "x = torch.relu(self.l1(x))");
  EXPECT_EQ(o.module, "l1");
  ASSERT_EQ(g.outputs.size(), 1u);
}

TEST(Capture, VariedForms) {
  Model m = import_archive(data + "varied.pt2");
  const ir::Graph& g = m.graph;
  ir::verify(g, ir::Level::captured);
  const ir::Weight *a = nullptr, *b = nullptr, *t = nullptr;
  for (const ir::Weight& w : g.weights) {
    if (w.name == "a.weight") a = &w;
    if (w.name == "b.weight") b = &w;
    if (w.name == "t") t = &w;
  }
  ASSERT_TRUE(a != nullptr && t != nullptr);
  if (b != nullptr) {
    EXPECT_EQ(b->tied_to, "a.weight");
  }
  EXPECT_EQ(g.type(t->value).dims, (ir::Dims{8, 6}));
  EXPECT_EQ(t->bytes, 8u * 6 * 4);
  EXPECT_EQ(std::get<double>(call(g, "aten.masked_fill.Scalar").attributes.at("value").value), -std::numeric_limits<double>::infinity());
  // The size arithmetic is gone; arange has the expression itself.
  EXPECT_EQ(std::get<ir::Dim>(call(g, "aten.arange.default").attributes.at("end").value), ir::Dim(2) * ir::Dim::symbol(0));
  EXPECT_EQ(call(g, "aten.split.Tensor").out.size(), 2u);
  EXPECT_EQ(std::get<ir::List>(call(g, "aten.cat.default").attributes.at("tensors").value).size(), 2u);
  ASSERT_EQ(g.outputs.size(), 3u);
  EXPECT_TRUE(g.outputs[1].order.empty());  // transposed, with gaps: half of what was split
}

TEST(Capture, WeightsStayAsTheyLie) {
  const float numbers[] = {0, 3, 1, 4, 2, 5, 6, 7};
  auto tensor = [](int64_t outer, int64_t inner) {
    return R"({"dtype": 7, "sizes": [{"as_int": 2}, {"as_int": 3}], "strides": [{"as_int": )" + std::to_string(outer) + R"(}, {"as_int": )" + std::to_string(inner) +
           R"(}], "storage_offset": {"as_int": 0}, "layout": 7})";
  };
  auto parameter = [](const std::string& name) { return R"({"parameter": {"arg": {"name": ")" + name + R"("}, "parameter_name": ")" + name + R"("}})"; };
  std::string tensors, inputs, specs;
  for (const auto& [name, outer, inner] : {std::tuple("rows", 3, 1), {"transposed", 1, 2}, {"tied", 1, 2}, {"gaps", 4, 1}, {"state", 1, 2}, {"added_to", 1, 2}}) {
    tensors += std::string(tensors.empty() ? "" : ", ") + '"' + name + "\": " + tensor(outer, inner);
    inputs += std::string(inputs.empty() ? "" : ", ") + R"({"as_tensor": {"name": ")" + name + R"("}})";
    specs += (specs.empty() ? "" : ", ") + parameter(name);
  }
  const std::string json = R"({"schema_version": {"major": 8}, "graph_module": {"graph": {"inputs": [)" + inputs + R"(], "outputs": [], "tensor_values": {)" + tensors + R"(},
    "nodes": [{"target": "torch.ops.aten.add_.Tensor", "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "added_to"}}}, {"name": "other", "arg": {"as_tensor": {"name": "rows"}}}],
               "outputs": [{"as_tensor": {"name": "added_to"}}], "metadata": {}}]},
    "signature": {"input_specs": [)" +
                           specs + R"(], "output_specs": [{"parameter_mutation": {"arg": {"name": "transposed"}, "parameter_name": "state"}}]}}})";
  std::vector<HostWeight> table;
  for (const char* name : {"rows", "transposed", "tied", "gaps", "state", "added_to"}) table.push_back({name, reinterpret_cast<const std::byte*>(numbers), sizeof numbers});
  const ir::Graph g = import_json(json, table).graph;
  auto values = [](const ir::Weight& w) { return std::vector<float>(reinterpret_cast<const float*>(w.data), reinterpret_cast<const float*>(w.data + w.bytes)); };
  ASSERT_EQ(g.weights.size(), 6u);
  for (const ir::Weight& w : g.weights) {
    EXPECT_EQ(g.type(w.value).dims, (ir::Dims{2, 3})) << w.name;
    const bool stays = w.name == "rows" || w.name == "transposed" || w.name == "tied";
    EXPECT_EQ(w.data == table[0].data, stays) << w.name;
    EXPECT_EQ(w.order, (w.name == "transposed" || w.name == "tied" ? std::vector<int64_t>{1, 0} : std::vector<int64_t>{})) << w.name;
    if (w.name == "gaps") {
      EXPECT_EQ(values(w), (std::vector<float>{0, 3, 1, 2, 5, 6}));
    } else if (!stays) {  // written, so row-major
      EXPECT_EQ(values(w), (std::vector<float>{0, 1, 2, 3, 4, 5})) << w.name;
    }
  }
  EXPECT_EQ(g.weights[1].tied_to, "");  // the same bytes, but other numbers
  EXPECT_EQ(g.weights[2].tied_to, "transposed");
}

TEST(Capture, ConditionsOnFractions) {
  auto resolve = [](std::string_view name) { return ir::Dim::symbol(name == "s0" ? 0 : 1); };
  const auto holds = [&](const char* text, std::vector<int64_t> sizes) { return broken(*parse_condition(text, resolve, {})).evaluate(sizes) == 0; };
  const char* less = "Le(IntTrueDiv(Symbol('s0'), Symbol('s1')), Float('1.75', precision=53))";
  EXPECT_TRUE(holds(less, {7, 4}));
  EXPECT_FALSE(holds(less, {15, 8}));
  const char* more = "StrictGreaterThan(IntTrueDiv(Symbol('s0'), Symbol('s1')), Float('0.5', precision=53))";
  EXPECT_TRUE(holds(more, {3, 4}));
  EXPECT_FALSE(holds(more, {2, 4}));
  EXPECT_EQ(message([&] {
              parse_condition("Lt(Float('0.29999999999999999', precision=53), IntTrueDiv(Symbol('s0'), Symbol('s1')))", resolve, {});
            }).find("a size is computed with Float"),
            0u);
}

TEST(Capture, Expression) {
  auto resolve = [](std::string_view name) { return ir::Dim::symbol(name == "s0" ? 0 : 1); };
  ir::Dim s0 = ir::Dim::symbol(0), s1 = ir::Dim::symbol(1);
  EXPECT_EQ(parse_size("Add(Integer(-1), Mul(Integer(2), Symbol('s0', positive=True, integer=True)))", resolve, {}), ir::Dim(2) * s0 - ir::Dim(1));
  EXPECT_EQ(parse_size("FloorDiv(Symbol('s0', integer=True), Integer(2))", resolve, {}), floordiv(s0, 2));
  EXPECT_EQ(parse_size("Mul(Rational(1, 2), Symbol('s0'))", resolve, {}), floordiv(s0, 2));
  EXPECT_EQ(parse_size("CeilToInt(IntTrueDiv(Symbol('s0'), Symbol('s1')))", resolve, {}), ceildiv(s0, s1));
  EXPECT_EQ(parse_size("FloorToInt(Add(IntTrueDiv(Symbol('s0'), Symbol('s1')), Integer(2)))", resolve, {}), floordiv(s0 + ir::Dim(2) * s1, s1));
  EXPECT_EQ(message([&] { parse_size("CeilToInt(IntTrueDiv(Symbol('s0'), Integer(0)))", resolve, {}); }).find("a size is computed with IntTrueDiv"), 0u);
  // int(n * 2.0 / 6), and a quotient in float64 that is multiplied again
  const ir::Dim capacity = parse_size("TruncToInt(FloatTrueDiv(Mul(Float('2.0', precision=53), ToFloat(Symbol('s0'))), Float('6.0', precision=53)))", resolve, {});
  for (int64_t size = 1; size <= 1000; ++size) EXPECT_EQ(capacity.evaluate(std::vector<int64_t>{size}), static_cast<int64_t>(static_cast<double>(size) * 2.0 / 6.0)) << size;
  EXPECT_EQ(parse_size("CeilToInt(Mul(Integer(-2), IntTrueDiv(Symbol('s0'), Integer(3))))", resolve, {}), -floordiv(ir::Dim(2) * s0, 3));
  for (const char* again :
       {"TruncToInt(Mul(Integer(49), IntTrueDiv(Symbol('s0'), Integer(49))))", "TruncToInt(Mul(IntTrueDiv(Symbol('s0'), Integer(3)), IntTrueDiv(Symbol('s1'), Integer(3))))"}) {
    EXPECT_EQ(message([&] { parse_size(again, resolve, {}); }).find("a size is computed with Mul"), 0u) << again;
  }
  // Of the sizes to 1,000, 10 and 24 are exact; 39 / 37 * 37 is less than 39.
  const std::vector<ir::Symbol> tried{{"s0", 1, 1, 1000}};
  EXPECT_EQ(parse_size("TruncToInt(Mul(Integer(24), IntTrueDiv(Symbol('s0'), Integer(24))))", resolve, tried), s0);
  EXPECT_THROW(parse_size("TruncToInt(Mul(Integer(37), IntTrueDiv(Symbol('s0'), Integer(37))))", resolve, tried), Error);
  EXPECT_EQ(parse_size("Pow(Symbol('s0'), Integer(2))", resolve, {}), s0 * s0);
  EXPECT_EQ(parse_size("TruncToInt(Mul(Float('1.5', precision=53), ToFloat(Symbol('s0', integer=True))))", resolve, {}), floordiv(ir::Dim(3) * s0, 2));
  EXPECT_EQ(parse_size("TruncToInt(Mul(Float('1.1000000000000001', precision=53), ToFloat(Symbol('s0'))))", resolve, {}), floordiv(ir::Dim(11) * s0, 10));
  const std::vector<ir::Symbol> sizes{{"s0", 1, 1, 1000}};
  EXPECT_EQ(parse_size("Add(Integer(1), Mul(Integer(-1), Max(Integer(0), Add(Integer(1), Mul(Integer(-1), Symbol('s0'))))))", resolve, sizes), ir::Dim(1));
  EXPECT_EQ(parse_size("Min(Symbol('s0'), Integer(1000))", resolve, sizes), s0);
  EXPECT_EQ(parse_size("Max(Integer(7), Symbol('s0'))", resolve, sizes), max(7, s0));
  const ir::Dim cut = parse_size("TruncToInt(Mul(Float('0.69999999999999996', precision=53), ToFloat(Symbol('s0'))))", resolve, sizes);
  for (int64_t size = 1; size <= 1000; ++size) EXPECT_EQ(cut.evaluate(std::vector<int64_t>{size}), static_cast<int64_t>(0.7 * static_cast<double>(size))) << size;
  for (const char* rounded :
       {"TruncToInt(Mul(Float('0.61803398874989', precision=53), ToFloat(Symbol('s0'))))", "CeilToInt(Mul(Float('1.7', precision=53), ToFloat(Symbol('s0'))))",
        "TruncToInt(Add(Float('1.7', precision=53), ToFloat(Symbol('s0'))))", "TruncToInt(Mul(Float('1.7', precision=53), Float('1.1', precision=53), Symbol('s0')))",
        "TruncToInt(Mul(Float('1.7', precision=53), IntTrueDiv(Symbol('s0'), Integer(3))))", "TruncToInt(IntTrueDiv(Float('1.7', precision=53), Symbol('s0')))"}) {
    EXPECT_EQ(message([&] { parse_size(rounded, resolve, {}); }).find("a size is computed with Float"), 0u) << rounded;
  }
  for (const char* broken : {"", "Add(", "Symbol('s0'", "Integer(x)", "Add()", "Mod(Integer(3))", "Integer(1)x", "Integer(99999999999999999999)", "Float('1.5')",
                             "Float('x', precision=53)", "Float('1.5"}) {
    EXPECT_THROW(parse_size(broken, resolve, {}), Error) << broken;
  }
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "Add(";
  EXPECT_THROW(parse_size(deep, resolve, {}), Error);
}

TEST(Capture, OriginPrefersTheUsersFile) {
  ir::Origin o = origin_of(
      "File \"/home/me/train.py\", line 7, in forward\n    y = self.net(x)\n  File \"/env/lib/python3.11/site-packages/transformers/bert.py\", line 9, in f\n    z\n"
      "  File \"/env/lib/python3.11/site-packages/torch/nn/linear.py\", line 134, in forward\n    return F.linear()",
      "L__self__,,M;a,L['self'].net.0,torch.nn.Linear");
  EXPECT_EQ(o.file, "/home/me/train.py");
  EXPECT_EQ(o.line, 7);
  EXPECT_EQ(o.code, "y = self.net(x)");
  EXPECT_EQ(o.module, "net.0");
  EXPECT_EQ(origin_of("File \"/env/site-packages/lib/a.py\", line 3, in f\n  x\n File \"/env/site-packages/torch/b.py\", line 4, in g\n  y", "").line, 3);
}

TEST(Capture, SetDim) {
  Model m = import_archive(data + "mlp.pt2");
  set_dim(m, "x", 0, 1, 8, 32, "B");
  EXPECT_EQ(m.graph.symbols[0].name, "B");
  EXPECT_EQ(m.graph.symbols[0].opt, 8);
  EXPECT_EQ(message([&] { set_dim(m, "x", 1, 1, 8, 64, "K"); }),
            "input x axis 1 was captured with the fixed size 16, so it cannot become 1..64 | Export with dynamic_shapes={\"x\": {1: torch.export.Dim(\"K\", min=1, "
            "max=64)}}.");
  EXPECT_EQ(message([&] { set_dim(m, "x", 0, 1, 8, 100, "B"); }),
            "input x axis 0 was captured for sizes 1..32; 1..100 goes beyond | Export with torch.export.Dim(..., min=1, max=100), or narrow the range.");
  EXPECT_EQ(message([&] { set_dim(m, "y", 0, 1, 8, 32, "B"); }), "the model has no input \"y\" | Did you mean \"x\"?");
  EXPECT_EQ(message([&] { set_dim(m, "x", 0, 9, 8, 32, "B"); }), "input x axis 0: the range 9..8..32 is not in order | Give sizes with min <= opt <= max.");
}

// Two inputs of one dynamic axis each, as the in-process form writes them.
Model two_inputs(const char* relation = "StrictLessThan") {
  auto tensor = [](const char* symbol) { return fmt::format(R"json({{"dtype": 7, "sizes": [{{"as_expr": {{"expr_str": "Symbol('{}')", "hint": null}}}}]}})json", symbol); };
  return import_json(fmt::format(R"json({{"schema_version": {{"major": 8}}, "range_constraints": {{"s0": {{"min_val": 1, "max_val": 64}}, "s1": {{"min_val": 1, "max_val": null}}}},
    "graph_module": {{"graph": {{"inputs": [{{"as_tensor": {{"name": "x"}}}}, {{"as_tensor": {{"name": "y"}}}}], "outputs": [], "tensor_values": {{"x": {}, "y": {}}},
      "sym_bool_values": {{"c": {{"as_expr": {{"expr_str": "{}(Symbol('s0'), Symbol('s1'))"}}}}}},
      "nodes": [{{"target": "torch.ops.aten._assert_scalar.default", "outputs": [], "inputs": [{{"name": "self", "arg": {{"as_sym_bool": {{"as_name": "c"}}}}}}]}}]}},
    "signature": {{"input_specs": [{{"user_input": {{"arg": {{"as_tensor": {{"name": "x"}}}}}}}}, {{"user_input": {{"arg": {{"as_tensor": {{"name": "y"}}}}}}}}],
      "output_specs": [{{"user_output": {{"arg": {{"as_tensor": {{"name": "x"}}}}}}}}]}}}}}})json",
                                 tensor("s0"), tensor("s1"), relation),
                     {});
}

TEST(Capture, SizesThatDiffer) {
  Model m = two_inputs("Unequality");
  ASSERT_EQ(m.graph.checks.size(), 1u);  // 1 <= (s1 - s0)^2
  const ir::Dim difference = ir::Dim::symbol(1) - ir::Dim::symbol(0);
  EXPECT_EQ(m.graph.checks[0].left, ir::Dim(1));
  EXPECT_EQ(m.graph.checks[0].right, difference * difference);
}

TEST(Capture, NamesUniteAxes) {
  Model m = two_inputs();
  ASSERT_EQ(m.graph.symbols.size(), 2u);
  EXPECT_EQ(m.graph.symbols[1].max, INT64_MAX);
  ASSERT_EQ(m.graph.checks.size(), 1u);  // s0 + 1 <= s1
  EXPECT_EQ(m.graph.checks[0].left, ir::Dim::symbol(0) + ir::Dim(1));
  set_dim(m, "x", 0, 1, 8, 32, "B");
  EXPECT_EQ(message([&] { set_dim(m, "y", 0, 1, 8, 16, "B"); }),
            "x axis 0 and y axis 0 share the name B, but have the ranges 1..32 and 1..16 | Give both the same range, or different names.");
  set_dim(m, "y", -1, 1, 8, 32, "B");
  ASSERT_EQ(m.graph.symbols.size(), 1u);
  EXPECT_EQ(m.graph.type(m.graph.inputs[1].value).dims[0], ir::Dim::symbol(0));
  EXPECT_EQ(m.graph.checks[0].right, ir::Dim::symbol(0));
  EXPECT_EQ(message([&] { set_dim(m, "y", 0, 1, 4, 8, "C"); }),
            "x axis 0 and y axis 0 are one size in the model, but were given the ranges 1..32 and 1..8 | Give both the same range.");
}

std::string archive(const std::string& name) {
  std::ifstream f(data + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(f), {}};
}

// A damaged file gives an Error or a model, never a crash.
void try_import(const std::string& bytes) {
  std::string path = ::testing::TempDir() + "damaged.pt2";
  std::ofstream(path, std::ios::binary) << bytes;
  try {
    import_archive(path);
  } catch (const Error&) {
  }
  std::filesystem::remove(path);
}

TEST(Capture, DamagedArchivesAreErrors) {
  std::string good = archive("mlp.pt2");
  EXPECT_NE(message([] { import_archive("/nonexistent.pt2"); }), "no error");
  for (size_t n = 0; n < good.size(); n += 97) try_import(good.substr(0, n));
  std::mt19937 random(1);
  // The directory and the JSON stand at the end: damage there meets the readers.
  for (int i = 0; i < 3000; ++i) {
    std::string bad = good;
    size_t from = i % 2 ? good.size() / 2 : good.size() - std::min<size_t>(good.size(), 2500);
    for (int k = 0; k < 1 + i % 4; ++k) bad[from + random() % (good.size() - from)] = static_cast<char>(random());
    try_import(bad);
  }
}

// The archive with one text replaced by another of the same length.
std::string import_edited(const std::string& from, const std::string& to) {
  std::string bytes = archive("mlp.pt2"), path = ::testing::TempDir() + "edited.pt2";
  size_t at = bytes.find(from);
  EXPECT_NE(at, std::string::npos);
  EXPECT_EQ(from.size(), to.size());
  std::ofstream(path, std::ios::binary) << bytes.replace(at, from.size(), to);
  std::string text = message([&] { import_archive(path); });
  std::filesystem::remove(path);
  return text;
}

TEST(Capture, WeightMessages) {
  EXPECT_EQ(import_edited("\"use_pickle\": false", "\"use_pickle\": true "),
            "weight \"l1.weight\" is a tensor subclass, which torch saved as a Python pickle; pickles are not read | Turn it into a plain tensor before export (for "
            "quantised weights: dequantize(), or torchao's unwrap_tensor_subclass).");
  EXPECT_EQ(import_edited("\"storage_offset\": {\"as_int\": 0}", "\"storage_offset\": {\"as_int\": 9}"), "weight l1.weight needs 2084 bytes of its storage, which has 2048");
  EXPECT_EQ(import_edited("\"l1.weight\": {\"path", "\"l9.weight\": {\"path"), "the archive holds no data for weight \"l1.weight\"");
}

TEST(Capture, Messages) {
  auto json = [](std::string_view text) { return message([&] { import_json(text, {}); }); };
  EXPECT_EQ(json("{}"), "the model's JSON is damaged: \"the model's graph\" has no field schema_version");
  EXPECT_EQ(json(R"({"schema_version": {"major": 9, "minor": 0}})"),
            "the model's graph has schema version 9; this ingot reads version 8 | Save the model with torch 2.10 to 2.15, or use an ingot made for that torch.");
  std::string mutated = R"({"schema_version": {"major": 8}, "graph_module": {"graph": {"inputs": [], "outputs": [], "nodes": []},
    "signature": {"input_specs": [], "output_specs": [{"buffer_mutation": {"arg": {"name": "x"}, "buffer_name": "bn.running_mean"}}]}}})";
  EXPECT_EQ(json(mutated), "the model's JSON is damaged: tensor \"x\" is used but never made");
}

}  // namespace
}  // namespace ingot::capture
