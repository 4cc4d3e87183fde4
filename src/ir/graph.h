// The one graph all stages share: nodes in execution order over immutable values.
//
// A value has dtype and dims, no strides: layout is a decision of compile. Nodes are stored in
// topological order; a pass builds a new graph or edits in place and calls compact().
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ir/dim.h"
#include "ir/dtype.h"
#include "ir/op.h"

namespace ingot::ir {

// A typed number. int64 and bool are exact; a Dim is a symbolic integer. Equal means the same type and the same bits: NaN equals itself, 0.0 is not -0.0.
struct Scalar {
  std::variant<bool, int64_t, double, Dim> value;
  Scalar(bool v) : value(v) {}             // NOLINT
  Scalar(int v) : value(int64_t{v}) {}     // NOLINT
  Scalar(int64_t v) : value(v) {}          // NOLINT
  Scalar(double v) : value(v) {}           // NOLINT
  Scalar(Dim v) {
    if (auto c = v.constant())
      value = *c;
    else
      value = std::move(v);
  }  // NOLINT
  bool is_bool() const { return std::holds_alternative<bool>(value); }
  bool is_integer() const { return std::holds_alternative<int64_t>(value) || std::holds_alternative<Dim>(value); }
  bool is_float() const { return std::holds_alternative<double>(value); }
  double to_double() const;                // Error for a symbolic Dim
  int64_t to_int() const;                  // Error for a symbolic Dim or a fraction
  bool operator==(const Scalar&) const;
};

// in[j] = offset[j] + sum over k of coefficient * out[k]: how an index of the result reaches an index of the operand.
struct AffineMap {
  struct Term {
    uint32_t axis;       // of the result
    int64_t coefficient;
    bool operator==(const Term&) const = default;
  };
  struct Axis {
    Dim offset = 0;
    std::vector<Term> terms;  // sorted by axis; empty = constant index
    bool operator==(const Axis&) const = default;
  };
  Dims dims;               // of the result
  std::vector<Axis> axes;  // one per axis of the operand
  std::optional<Scalar> fill;  // when set, an index out of the operand's bounds reads this instead
  bool operator==(const AffineMap&) const = default;
};

using ValueId = uint32_t;
using NodeId = uint32_t;
using OriginId = uint32_t;
inline constexpr uint32_t none_id = UINT32_MAX;

// A reference to operand `in[index]` of the node, for tensor arguments inside a row's attributes.
struct Ref {
  uint32_t index;
  bool operator==(const Ref&) const = default;
};

class Graph;
using GraphRef = std::shared_ptr<const Graph>;  // never null; equal when it is the same one

struct Attribute;
using List = std::vector<Attribute>;
struct Attribute {
  // monostate is Python's None. Numbers are equal as Scalars are.
  std::variant<std::monostate, bool, int64_t, double, std::string, DType, Dim, AffineMap, Ref, GraphRef, List> value;
  Attribute() = default;
  template <class T>
    requires(!std::is_same_v<std::decay_t<T>, Attribute>)
  Attribute(T v) : value(std::move(v)) {}  // NOLINT
  Attribute(int v) : value(int64_t{v}) {}  // NOLINT
  Attribute(const char* v) : value(std::string(v)) {}  // NOLINT
  bool is_none() const { return std::holds_alternative<std::monostate>(value); }
  bool operator==(const Attribute&) const;
};

// A row's own attribute "target" is its operator; an argument of that name (of losses) has this one.
inline constexpr std::string_view target_argument = "target_argument";

// Named attributes, sorted by name.
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string, Attribute>> list);
  void set(std::string name, Attribute value);
  const Attribute* find(std::string_view name) const;
  // Error naming the attribute when missing or of another type. A Dim attribute that is constant may be read as int64_t
  // and an int64_t as Dim.
  const Attribute& at(std::string_view name) const;
  bool boolean(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;  // int64 or double
  const std::string& string(std::string_view name) const;
  DType dtype(std::string_view name) const;
  Dim dim(std::string_view name) const;
  Dims dims(std::string_view name) const;
  std::vector<int64_t> integers(std::string_view name) const;
  const AffineMap& map(std::string_view name) const;
  Scalar scalar(std::string_view name) const;
  std::vector<GraphRef> graphs(std::string_view name) const;
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  size_t size() const { return items_.size(); }
  bool operator==(const Attributes&) const = default;

 private:
  std::vector<std::pair<std::string, Attribute>> items_;
};
// Of a gather or scatter: true if negative indices count from the end, as they do if it does not say.
bool wraps(const Attributes&);
Attribute to_attribute(const Dims&);
Attribute to_attribute(const std::vector<int64_t>&);
Attribute to_attribute(const Scalar&);

// Where a node comes from in the user's program.
struct Origin {
  std::string file;      // of the user's innermost frame; empty when unknown
  int line = 0;
  std::string code;      // the source text of the line, when known
  std::string module;    // path in the module tree, "encoder.layer.0.attention"
  std::string target;    // the ATen row the node was expanded from, "aten.softmax.int"
  std::string node;      // the FX node's name
  std::string classes = {};  // captured level: classes of the modules around it, outermost first, "pkg.Model;pkg.Layer"
  std::string text() const;  // "model.py:12 in encoder.layer.0: `x = self.f(y)`"
  bool operator==(const Origin&) const = default;
};

struct Type {
  DType dtype = DType::f32;
  Dims dims;
  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  bool operator==(const Type&) const = default;
};

struct Value {
  Type type;
  NodeId producer = none_id;
  std::string name;  // FX or weight name when there is one; for people
  // Captured level: the strides torch recorded, as a permutation (see Output::order).
  std::vector<int64_t> order = {};
};

struct Node {
  Op op;
  std::vector<ValueId> in, out;
  Attributes attributes;
  OriginId origin = none_id;
  // Nodes that one row expanded to share a group: eager rounds half values between rows, not inside one (lower/rounding.cpp). 0 = none.
  uint32_t group = 0;
};

// A product of matrices: one for all rows, or one for each group of them.
inline bool is_product(const Node& n) { return n.op == Op::matmul || n.op == Op::ragged_matmul; }
// True for a product that is a convolution: its precision is chosen by itself.
inline bool is_convolution(const Node& matmul) {
  const auto* found = matmul.attributes.find("convolution");
  return found != nullptr && matmul.attributes.boolean("convolution");
}

// The operands of a node of attention by name; none_id: it has none.
struct AttentionInputs {
  ValueId query, key, value, mask = none_id, filled = none_id;
};
inline AttentionInputs attention_inputs(const Node& n, const std::vector<ValueId>& in) {
  AttentionInputs of{in[0], in[1], in[2]};
  const bool filled = n.attributes.find("filled") != nullptr && n.attributes.boolean("filled");
  if (filled) of.filled = in.back();
  if (in.size() == 4u + filled) of.mask = in[3];
  return of;
}
inline AttentionInputs attention_inputs(const Node& n) { return attention_inputs(n, n.in); }

struct Input {
  ValueId value;
  std::string name;
  // Canonical level: the axes of the caller's tensor as they lie in memory, outermost first; the value has them in this order. Empty = row-major.
  std::vector<int64_t> order = {};
};
struct Output {
  // Where the value goes: to the caller, or into the memory of the input or weight called `name`, once all else has run. Or it gives a size: a 0-d i64 that is
  // read while the graph runs and becomes the value of the symbol called `name`. What uses that symbol runs after it.
  enum class To : uint8_t { caller, input, weight, size };
  ValueId value;
  std::string name;
  // Strides recorded at capture as a permutation: dims sorted from outermost to innermost in
  // memory; empty = row-major.
  std::vector<int64_t> order;
  To to = To::caller;
};

// A parameter, buffer or lifted constant. Bytes stay where they are (mapped file or torch's storage).
struct Weight {
  ValueId value;
  std::string name;          // state-dict name
  std::string tied_to;       // name of the weight whose storage this shares, or empty
  const std::byte* data = nullptr;  // dense, in its order; null when stripped
  size_t bytes = 0;
  std::shared_ptr<const void> keep;  // keeps `data` alive
  bool mutated = false;      // a buffer that the model writes
  // The axes of the state dict's tensor as they lie in `data`, outermost first; empty = row-major. Canonical level: the value has them in this order.
  std::vector<int64_t> order = {};
};

// A run-time condition on sizes that capture or infer could not decide: left == right (or <=) must hold.
struct Check {
  Dim left, right;
  enum Kind : uint8_t { equal, less_equal } kind = equal;
  OriginId origin = none_id;
  std::string why;  // "the two operands of add have the same size"
};

class Graph {
 public:
  std::vector<Symbol> symbols;
  std::vector<Node> nodes;     // topological order
  std::vector<Value> values;
  std::vector<Origin> origins;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<Weight> weights;
  std::vector<Check> checks;

  ValueId add_input(std::string name, Type type, std::vector<int64_t> order = {});
  ValueId add_weight(Weight weight, Type type);  // Weight::value is filled in
  // An input becomes this weight.
  void make_weight(size_t input, Weight weight);
  // Calls `fill` for each weight, those of the graphs inside too.
  void fill_weights(const std::function<void(Weight&, const Type&)>& fill);
  // Appends a node with one result of the given type (see infer for deriving it).
  ValueId add(Op op, std::vector<ValueId> in, Attributes attributes, Type type);
  NodeId add_node(Op op, std::vector<ValueId> in, Attributes attributes, std::vector<Type> types);
  const Type& type(ValueId v) const { return values[v].type; }
  const Node& producer(ValueId v) const { return nodes[values[v].producer]; }
  const Weight* weight_of(ValueId v) const;  // null when v is not a weight
  // Sizes of the caller's tensor, and of the state dict's.
  Dims given_dims(const Input& i) const { return given_dims(i.value, i.order); }
  Dims given_dims(const Weight& w) const { return given_dims(w.value, w.order); }
  // The value that an output to an input or weight writes over; none_id for the caller's, Error (internal) when there is no such leaf.
  ValueId written_by(const Output&) const;
  OriginId add_origin(Origin origin);        // equal origins share an id

  // While set, new nodes get this origin and group.
  OriginId current_origin = none_id;
  uint32_t current_group = 0;
  // Symbols that torch recorded for sizes that come from data, in the order in which read_size (compose.h) gives them.
  std::vector<SymbolId> expected_sizes;

  // Users of every value: node ids, in order (an output is not a user).
  std::vector<std::vector<NodeId>> users() const;
  // Replaces every use of `from` (outputs included) by `to`.
  void replace_uses(ValueId from, ValueId to);
  // Removes nodes whose results nobody needs and renumbers; inputs stay, unused weights go.
  void remove_unused();

 private:
  Dims given_dims(ValueId, const std::vector<int64_t>& order) const;
};

enum class Level : uint8_t { captured, canonical };

// Result types of one canonical node from its operands; Error with the reason when they do not fit.
std::vector<Type> infer(const Graph&, Op, const std::vector<ValueId>& in, const Attributes&);
// Error naming the first broken rule and node: order, arity, dtypes, shapes (against infer), attributes, unknown names.
void verify(const Graph&, Level);
// Text form; parse(print(g)) prints the same text. Weights' bytes are not part of the text.
std::string print(const Graph&);
// An attribute as it stands in that text.
std::string text_of(const Graph&, const Attribute&);
Graph parse(std::string_view text);

// Broadcast of shapes as in ATen; Error when they cannot be. Undecidable pairs add a Check to `checks` when given.
Dims broadcast(const Dims&, const Dims&, std::span<const Symbol>, std::vector<Check>* checks = nullptr);

// Affine maps of the usual views, for operands of the given dims.
AffineMap permute_map(const Dims&, const std::vector<int64_t>& order);
AffineMap expand_map(const Dims& from, const Dims& to);       // ATen's expand: leading axes may be added
AffineMap slice_map(const Dims&, int64_t axis, Dim start, Dim size, int64_t step);
AffineMap select_map(const Dims&, int64_t axis, Dim index);
AffineMap compose(const AffineMap& outer, const AffineMap& inner);  // out -> outer -> inner operand; inner must not fill
bool is_identity(const AffineMap&, const Dims& operand);

}  // namespace ingot::ir
