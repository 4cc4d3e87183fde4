#include "capture/guard.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "capture/capture.h"
#include "fmt/format.h"

namespace ingot::capture {

namespace {

using ir::Dim;

// x and y stand for symbols 0 and 1.
std::string read(std::string_view text) {
  auto conditions = parse_guard(text, [](std::string_view source) -> std::optional<Dim> {
    if (source == "L['x'].size()[0]") return Dim::symbol(0);
    if (source == "L['y'][\"]'\"].z.size()[1]") return Dim::symbol(1);
    return std::nullopt;
  });
  if (!conditions) return "unknown";
  const std::vector<ir::Symbol> symbols{{"x"}, {"y"}};
  std::string all;
  for (const Condition& c : *conditions) {
    all += all.empty() ? "" : " and ";
    if (c.either.empty()) {
      all += fmt::format("{} {} {}", c.left.text(symbols), c.equal ? "==" : c.unequal ? "!=" : "<=", c.right.text(symbols));
    } else {
      all += broken({c}).text(symbols) + " == 0";
    }
  }
  return all;
}

}  // namespace

TEST(Guard, Read) {
  EXPECT_EQ(read("L['x'].size()[0] >= 12"), "12 <= x");
  EXPECT_EQ(read("L['x'].size()[0]*L['y'][\"]'\"].z.size()[1] > 12"), "13 <= x*y");
  EXPECT_EQ(read("(L['x'].size()[0] % 2) == 0"), "mod(x, 2) == 0");
  EXPECT_EQ(read("-2 + 3*L['x'].size()[0]**2 != 1 - (L['x'].size()[0] // 4)"), "3*x*x - 2 != -floordiv(x, 4) + 1");
  EXPECT_EQ(read("max(3, L['x'].size()[0], 4) < min(7, L['x'].size()[0])"), "max(max(x, 3), 4) + 1 <= min(x, 7)");
  EXPECT_EQ(read("(L['x'].size()[0] <= 4) and (2 < L['x'].size()[0])"), "x <= 4 and 3 <= x");
  EXPECT_EQ(read("--L['x'].size()[0] == -5"), "x == -5");
  EXPECT_EQ(read("(L['x'].size()[0] <= 4) or (L['x'].size()[0] == 9)"), "x*x*max(0, x - 4) - 18*x*max(0, x - 4) + 81*max(0, x - 4) == 0");
}

// The conditions that sympy writes; 1 where x and y break them.
std::string broken_at(std::string_view text, int64_t x, int64_t y) {
  auto conditions = parse_condition(text, [&](std::string_view name) { return Dim(name == "x" ? x : y); }, {});
  return conditions ? std::to_string(std::min<int64_t>(broken(*conditions).value(), 1)) : "unknown";
}

TEST(Condition, AndOrNot) {
  const std::string le = "LessThan(Symbol('x', integer=True), Integer(4))", eq = "Equality(Mod(Symbol('y'), Integer(3)), Integer(1))";
  for (int64_t x : {0, 4, 5}) {
    for (int64_t y : {0, 1, 4}) {
      const bool a = x <= 4, b = y % 3 == 1;
      auto expected = [](bool holds) { return holds ? "0" : "1"; };
      EXPECT_EQ(broken_at(le, x, y), expected(a));
      EXPECT_EQ(broken_at("Not(" + le + ")", x, y), expected(!a));
      EXPECT_EQ(broken_at("And(" + le + ", " + eq + ")", x, y), expected(a && b));
      EXPECT_EQ(broken_at("Or(" + le + ", " + eq + ")", x, y), expected(a || b));
      EXPECT_EQ(broken_at("Not(Or(" + le + ", " + eq + "))", x, y), expected(!(a || b)));
      EXPECT_EQ(broken_at("Or(Not(And(" + le + ", " + eq + ")), " + eq + ")", x, y), expected(!(a && b) || b));
    }
  }
  EXPECT_EQ(broken_at("And(" + le + ", Xor(" + le + ", " + eq + "))", 1, 1), "unknown");
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "Not(";
  EXPECT_THROW(broken_at(deep, 1, 1), Error);
}

TEST(Guard, Unknown) {
  for (std::string_view text : {"", "L['x'].size()[0]", "L['q'].size()[0] == 1", "L['x'].size()[0] == 1.5", "(L['x'].size()[0] / 2) == 1", "L['x'].size()[0] == 1 or 2", "L['x",
                                "not L['x'].size()[0] == 1", "L['x'].size()[0] == 1)", "(3 == 3) + 1 == 2", "L['x'].size()[0] ** 99 == 1", "L['x'].size()[0] // 0 == 1", "L[",
                                "1 == 9223372036854775808"}) {
    EXPECT_EQ(read(text), "unknown") << text;
  }
  EXPECT_EQ(read(std::string(100000, '(')), "unknown");
  EXPECT_EQ(read(std::string(100000, '-')), "unknown");
}

namespace {

// The checks of a program with inputs x [s0, 2*s1 + 1] and batch_ids [s1] and these conditions; "torch" if one cannot be read.
std::string checks(std::string_view conditions) {
  auto size = [](std::string_view text) { return fmt::format(R"json({{"as_expr": {{"expr_str": "{}", "hint": null}}}})json", text); };
  auto argument = [](std::string_view name) { return fmt::format(R"json({{"as_tensor": {{"name": "{}"}}}})json", name); };
  const std::string wide = "Add(Mul(Integer(2), Symbol('s1')), Integer(1))";
  Model m = import_json(
      fmt::format(
          R"json({{"schema_version": {{"major": 8}}, "range_constraints": {{"s0": {{"min_val": 2, "max_val": 64}}, "s1": {{"min_val": 0, "max_val": 64}}}}, "guards_code": [{}],
    "graph_module": {{"graph": {{"inputs": [{x}, {y}], "outputs": [], "tensor_values": {{"x": {{"dtype": 7, "sizes": [{s}, {w}]}}, "batch_ids": {{"dtype": 7, "sizes": [{k}]}}}}, "nodes": []}},
    "signature": {{"input_specs": [{{"user_input": {{"arg": {x}}}}}, {{"user_input": {{"arg": {y}}}}}], "output_specs": [{{"user_output": {{"arg": {x}}}}}]}}}}}})json",
          conditions, fmt::arg("x", argument("x")), fmt::arg("y", argument("batch_ids")), fmt::arg("s", size("Symbol('s0')")), fmt::arg("w", size(wide)),
          fmt::arg("k", size("Symbol('s1')"))),
      {});
  std::string all;
  for (const ir::Node& n : m.graph.nodes) all += n.op == ir::Op::call ? "torch " : "";
  for (const ir::Check& c : m.graph.checks) all += c.why + ";";
  return all;
}

}  // namespace

TEST(Guard, OfPrograms) {
  EXPECT_EQ(checks(R"("L['x'].size()[0]*L['batch']['ids'].size()[0] >= 12")"), "it was captured for 12 <= x.shape[0]*((x.shape[1] - 1)//2);");
  EXPECT_EQ(checks(R"("L['flat_args'][0].size()[1] != L['flat_args'][1].size()[0]")"), "");  // 2*s1 + 1 is never s1
  EXPECT_EQ(checks(R"("L['flat_args'][0].size()[1] != 9")"), "it was captured for 2*((x.shape[1] - 1)//2) + 1 != 9;");
  EXPECT_EQ(checks(R"("L['x'].size()[0] >= 2", "(L['x'].size()[0] % 2) == 0")"), "it was captured for mod(x.shape[0], 2) == 0;");
  for (const char* text :
       {R"("L['flat_args'][2].size()[0] == 1")", R"("L['x'].size()[2] == 1")", R"("L['x'] == 1")", R"("L['X']['y'].size()[0] == 1")", R"("L['x'].size()[0] / 3 == 1")"}) {
    EXPECT_EQ(checks(text), "torch ") << text;
  }
}

}  // namespace ingot::capture
