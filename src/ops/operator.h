// An operator definition: ATen's schema text and a body that composes canonical nodes.
//
//   {"hardswish(Tensor self)", [](Value x) { return x * clamp(x + 3, 0, 6) / 6; }},
//   {"add.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other, *, Scalar alpha=1)", Types::common, ...}
//
// A definition of several tensors says how their dtypes meet (Types in binding.h).
//
// Arguments bind by name. A body's parameter types say what it takes: Value, std::optional<Value>,
// std::vector<Value>, std::vector<std::optional<Value>>, Scalar, std::optional<Scalar>, int64_t, Dim, Dims,
// Axis, Axes, bool, double, std::string, std::optional<...>, DType. A first parameter Graph& is given the graph,
// a first parameter Recorded the number of results that torch recorded. Definitions for complex numbers take Complex too.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/compose.h"

namespace ingot::ops {

using ir::Attribute;
using Results = std::vector<ir::Handle>;

struct Parameter {
  std::string type;            // "Tensor", "Tensor?", "Tensor[]", "Scalar", "SymInt[]", "int[1]?", "bool", ...
  std::string name;
  std::optional<std::string> default_text;
  bool keyword_only = false;
};

struct Schema {
  std::string name;            // "add"
  std::string overload;        // "Tensor", "" for the default overload
  std::vector<Parameter> parameters;
  std::string target() const;  // "aten.add.Tensor", "aten.relu.default"
};
// Reads one schema text; `{a,b}` alternatives give one schema each, in step.
std::vector<Schema> parse_schema(std::string_view text);

// One overload: what lower, partition, docs and tests see.
struct Operator {
  Schema schema;
  std::function<Results(ir::Graph&, std::span<const Attribute> arguments, std::span<const ir::ValueId> in, size_t recorded)> body;
  const char* family;
};

// By target; null if the table has none. Names are "aten.add.Tensor"; other namespaces keep theirs.
const Operator* find(std::string_view target);
std::span<const Operator> all();
// The definition of an operator on complex numbers, or of one that has some inside; null if there is none.
const Operator* find_complex(std::string_view target);

// An overload of ATen for inference that has no definition.
struct Absent {
  const char* target;
  const char* group;   // "composite" if torch decomposes it
  const char* reason;
};
std::span<const Absent> absent();

// An attribute of a captured call: its definition reads the first operand with the axes in this order, the one that they have in memory (as_strided).
inline constexpr std::string_view operand_order = "operand_order";

// Expands one captured call into canonical nodes of `g`. `arguments` are the call's attributes by name with Ref into `in`; an argument that the schema
// does not have must be torch's default. Error (unsupported) with the reason if the body refuses. `recorded`: the number of results that torch recorded,
// for operators whose number of results depends on a size.
Results expand(ir::Graph& g, const Operator&, const ir::Attributes& arguments, std::span<const ir::ValueId> in, size_t recorded = 1);

}  // namespace ingot::ops
