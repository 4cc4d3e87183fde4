// The operator table: the families in one list, looked up by target.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "ops/binding.h"

namespace ingot::ops {

#define INGOT_FAMILIES(X) \
  X(pointwise) \
  X(activation) \
  X(comparison) \
  X(creation) \
  X(shape) \
  X(reduction) \
  X(linear) X(normalization) X(convolution) X(pooling) X(resize) X(indexing) X(distance) X(loss) X(special) X(signal) X(linear_algebra) X(transformer) X(recurrent) X(unique)
#define X(name) std::span<const Definition> name##_definitions();
INGOT_FAMILIES(X)
#undef X
// Those for complex numbers, and for transforms that have some inside.
std::span<const Definition> complex_definitions();
std::span<const Definition> transform_definitions();

namespace {

bool is_number(const Attribute& v) {
  return std::holds_alternative<bool>(v.value) || std::holds_alternative<int64_t>(v.value) || std::holds_alternative<double>(v.value) || std::holds_alternative<Dim>(v.value);
}

}  // namespace

void Arguments::bad(size_t i, const char* wanted) const {
  fail(Code::unsupported, "{}: argument {} is not {}", schema.target(), i < schema.parameters.size() ? schema.parameters[i].name : "?", wanted);
}

// A number where torch takes a tensor is one that is weak in promotion.
Value Arguments::tensor(size_t i, const Attribute& v) const {
  if (is_number(v)) {
    const Scalar s = scalar(i, v);
    return ir::literal(graph, s, s.is_bool() ? DType::b8 : s.is_integer() ? DType::i64 : DType::f32);
  }
  const auto* ref = std::get_if<ir::Ref>(&v.value);
  if (ref == nullptr || ref->index >= in.size()) bad(i, "a tensor");
  if (is_complex(graph.type(in[ref->index]).dtype)) bad(i, "real");
  return Value(&graph, in[ref->index]);
}

// A complex number is a list of its parts.
Complex Arguments::complex(size_t i, const Attribute& v) const {
  if (const auto* ref = std::get_if<ir::Ref>(&v.value); ref != nullptr && ref->index < in.size()) {
    const Value x(&graph, in[ref->index]);
    return is_complex(x.dtype()) ? parts(x) : Complex{x, std::nullopt};
  }
  if (const auto* list = std::get_if<ir::List>(&v.value); list != nullptr && list->size() == 2) return {tensor(i, (*list)[0]), tensor(i, (*list)[1])};
  return {tensor(i, v), std::nullopt};
}

Scalar Arguments::scalar(size_t i, const Attribute& v) const {
  if (auto* b = std::get_if<bool>(&v.value)) return *b;
  if (auto* n = std::get_if<int64_t>(&v.value)) return *n;
  if (auto* d = std::get_if<double>(&v.value)) return *d;
  if (auto* s = std::get_if<Dim>(&v.value)) return *s;
  bad(i, "a number");
}

Dim Arguments::dim(size_t i, const Attribute& v) const {
  if (auto* n = std::get_if<int64_t>(&v.value)) return *n;
  if (auto* s = std::get_if<Dim>(&v.value)) return *s;
  bad(i, "an integer");
}

int64_t Arguments::integer(size_t i, const Attribute& v) const {
  if (auto* b = std::get_if<bool>(&v.value)) return *b;
  Dim d = dim(i, v);
  if (auto c = d.constant()) return *c;
  bad(i, "known at compile time: it follows from a size that is open. Give the axis that it follows from one size");
}

double Arguments::number(size_t i, const Attribute& v) const { return scalar(i, v).to_double(); }

bool Arguments::boolean(size_t i, const Attribute& v) const {
  if (auto* b = std::get_if<bool>(&v.value)) return *b;
  bad(i, "a bool");
}

std::string Arguments::text(size_t i, const Attribute& v) const {
  if (auto* s = std::get_if<std::string>(&v.value)) return *s;
  bad(i, "a text");
}

DType Arguments::dtype(size_t i, const Attribute& v) const {
  constexpr int64_t torch_int64 = 4;  // a schema's default is torch's number of a dtype
  if (auto* t = std::get_if<DType>(&v.value)) return *t;
  if (auto* n = std::get_if<int64_t>(&v.value); n != nullptr && *n == torch_int64) return DType::i64;
  bad(i, "a dtype");
}

const ir::List& Arguments::list(size_t i, const Attribute& v) const {
  if (auto* l = std::get_if<ir::List>(&v.value)) return *l;
  bad(i, "a list");
}

namespace {

// The value of a default in schema text.
Attribute default_value(const std::string& text) {
  if (text == "None") return {};
  if (text == "True") return true;
  if (text == "False") return false;
  if (text == "inf") return INFINITY;
  if (text.starts_with('\'') || text.starts_with('"')) return text.substr(1, text.size() - 2);
  if (text == "[]") return ir::List{};
  if (text.starts_with('[')) {
    ir::List list;
    std::string_view rest = std::string_view(text).substr(1, text.size() - 2);
    while (!rest.empty()) {
      std::string one(rest.substr(0, rest.find(',')));
      one.erase(0, one.find_first_not_of(' '));
      list.push_back(default_value(one));
      rest.remove_prefix(std::min(rest.size(), rest.find(',') == std::string_view::npos ? rest.size() : rest.find(',') + 1));
    }
    return list;
  }
  if (text.find_first_of(".e") == std::string::npos) {
    int64_t v = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
    if (error == std::errc() && end == text.data() + text.size()) return v;
    return text;  // Mean, contiguous_format and other names
  }
  return std::stod(text);
}

// How many tensors a call may have; a list counts as two.
int tensors(const Schema& schema) {
  int count = 0;
  for (const Parameter& p : schema.parameters) count += !p.type.starts_with("Tensor") ? 0 : p.type.ends_with("[]") ? 2 : 1;
  return count;
}

// The operands of a call, brought to the dtype that the definition's `types` says.
class Promotion {
 public:
  Promotion(const Arguments& a, Types types) : arguments_(a), types_(types) {}

  // The call with these operands; `in` and `values` hold them.
  Arguments run(std::vector<ir::ValueId>& in, std::vector<Attribute>& values) {
    values.assign(arguments_.values.begin(), arguments_.values.end());
    in.assign(arguments_.in.begin(), arguments_.in.end());
    each([&](size_t i, Attribute& v) { operands_.push_back(As<Operand>::from(arguments_, i, v)); }, values);
    const DType t = type();
    size_t number = 0;
    each(
        [&](size_t i, Attribute& v) {
          if (!operands_[number++].value && types_ == Types::same) return;  // a number keeps what the dtype would round away
          in.push_back(ir::cast(arguments_.tensor(i, v), t).id());
          v = ir::Ref{static_cast<uint32_t>(in.size() - 1)};
        },
        values);
    return {arguments_.graph, arguments_.schema, values, in, arguments_.recorded};
  }

 private:
  template <class F>
  void each(const F& f, std::vector<Attribute>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      const Parameter& p = arguments_.schema.parameters[i];
      if (values[i].is_none() || !(p.type.starts_with("Tensor") || (p.type == "Scalar" && !p.default_text))) continue;
      if (auto* list = std::get_if<ir::List>(&values[i].value)) {
        for (Attribute& part : *list) {
          if (!part.is_none()) f(i, part);
        }
      } else {
        f(i, values[i]);
      }
    }
  }

  DType type() const {
    const DType t = ir::result_type(operands_);
    for (const Operand& o : operands_) {
      if (types_ == Types::numbers && (o.value ? is_bool(o.value->dtype()) : o.number.is_bool())) fail(Code::unsupported, "{}: torch takes no bools", arguments_.schema.target());
      if (types_ == Types::only_floats && !is_float(t)) fail(Code::unsupported, "{}: torch takes no {}", arguments_.schema.target(), name_of(t));
    }
    if (types_ != Types::same) return types_ == Types::floats ? ir::float_type(t) : t;
    std::optional<DType> first;
    for (const Operand& o : operands_) {
      if (!o.value) continue;
      if (!first) first = o.value->dtype();
      if (o.value->dtype() != *first) {
        fail(Code::unsupported, "{}: its tensors have dtypes {} and {}, and torch takes equal ones", arguments_.schema.target(), name_of(*first), name_of(o.value->dtype()));
      }
    }
    return first.value_or(t);
  }

  const Arguments& arguments_;
  Types types_;
  std::vector<Operand> operands_;
};

Results run(const Definition& definition, const Arguments& arguments) {
  if (definition.types == Types::unstated || definition.types == Types::each) return definition.body(arguments);
  std::vector<ir::ValueId> in;
  std::vector<Attribute> values;
  return definition.body(Promotion(arguments, definition.types).run(in, values));
}

struct Table {
  std::vector<Operator> operators;
  std::map<std::string, size_t, std::less<>> by_target;

  void index() {
    std::sort(operators.begin(), operators.end(), [](const Operator& a, const Operator& b) { return a.schema.target() < b.schema.target(); });
    for (size_t i = 0; i < operators.size(); ++i) {
      if (!by_target.emplace(operators[i].schema.target(), i).second) fail(Code::internal, "operator {} has two definitions", operators[i].schema.target());
    }
  }

  const Operator* find(std::string_view target) const {
    auto found = by_target.find(target);
    return found == by_target.end() ? nullptr : &operators[found->second];
  }

  void add(const char* family, std::span<const Definition> definitions) {
    for (const Definition& definition : definitions) {
      for (Schema& schema : parse_schema(definition.schema)) {
        if (definition.types == Types::unstated && tensors(schema) > 1) fail(Code::internal, "operator {} does not say how the types of its tensors meet", schema.target());
        auto shared = std::make_shared<const Schema>(schema);
        operators.push_back({std::move(schema),
                             [&definition, shared](Graph& g, std::span<const Attribute> arguments, std::span<const ir::ValueId> in, size_t recorded) {
                               return run(definition, Arguments{g, *shared, arguments, in, recorded});
                             },
                             family});
      }
    }
  }
};

const Table& table() {
  static const Table made = [] {
    Table t;
#define X(name) t.add(#name, name##_definitions());
    INGOT_FAMILIES(X)
#undef X
    t.index();
    return t;
  }();
  return made;
}

// For complex numbers.
const Table& complex_table() {
  static const Table made = [] {
    Table t;
    t.add("complex", complex_definitions());
    t.add("fourier", transform_definitions());
    std::set<std::string> own;
    for (const Operator& op : t.operators) own.insert(op.schema.target());
    for (const Operator& real : table().operators) {
      if (auto op = on_parts(real); op && !own.contains(real.schema.target())) t.operators.push_back(*std::move(op));
    }
    t.index();
    return t;
  }();
  return made;
}

}  // namespace

const Operator* find(std::string_view target) { return table().find(target); }
const Operator* find_complex(std::string_view target) { return complex_table().find(target); }

std::span<const Operator> all() { return table().operators; }

Results expand(Graph& g, const Operator& op, const ir::Attributes& arguments, std::span<const ir::ValueId> in, size_t recorded) {
  std::vector<Attribute> values;
  for (const Parameter& p : op.schema.parameters) {
    if (const Attribute* given = arguments.find(p.name)) {
      values.push_back(*given);
    } else if (p.default_text) {
      values.push_back(default_value(*p.default_text));
    } else {
      fail(Code::unsupported, "{}: argument {} is missing", op.schema.target(), p.name);
    }
  }
  for (const auto& [name, value] : arguments) {
    if (name == "target") continue;
    bool listed = std::any_of(op.schema.parameters.begin(), op.schema.parameters.end(), [&](const Parameter& p) { return p.name == name; });
    // Where a tensor lives and how it is laid out does not change its values.
    bool placement = name == "device" || name == "layout" || name == "pin_memory" || name == "memory_format" || name == "non_blocking" || name == "copy" || name == "implicit";
    if (listed || placement || value.is_none()) continue;
    if (auto* b = std::get_if<bool>(&value.value); b != nullptr && !*b) continue;
    fail(Code::unsupported, "{}: argument {} is not supported", op.schema.target(), name);
  }
  return op.body(g, values, in, recorded);
}

}  // namespace ingot::ops
