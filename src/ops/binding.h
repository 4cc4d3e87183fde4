// How a schema's arguments become the parameters of an operator definition's body.
#pragma once
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "ops/complex.h"
#include "ops/operator.h"

namespace ingot::ops {

using ir::Axes;
using ir::Axis;
using ir::Dim;
using ir::Dims;
using ir::DType;
using ir::Graph;
using ir::Op;
using ir::Operand;
using ir::Scalar;
using Value = ir::Handle;

// A definition whose intermediate results need more bits than a half has computes in float32.
inline Value widened(const Value& x) { return is_float(x.dtype()) && size_of(x.dtype()) == 2 ? cast(x, DType::f32) : x; }

// The arguments of one call, in the order of the schema.
struct Arguments {
  Graph& graph;
  const Schema& schema;
  std::span<const Attribute> values;
  std::span<const ir::ValueId> in;
  size_t recorded = 1;

  const Attribute& at(size_t i) const { return values[i]; }
  [[noreturn]] void bad(size_t i, const char* wanted) const;

  Value tensor(size_t i, const Attribute&) const;
  Complex complex(size_t i, const Attribute&) const;
  Scalar scalar(size_t i, const Attribute&) const;
  Dim dim(size_t i, const Attribute&) const;
  int64_t integer(size_t i, const Attribute&) const;
  double number(size_t i, const Attribute&) const;
  bool boolean(size_t i, const Attribute&) const;
  std::string text(size_t i, const Attribute&) const;
  DType dtype(size_t i, const Attribute&) const;
  const ir::List& list(size_t i, const Attribute&) const;
};

// One conversion per C++ type a body may take.
template <class T>
struct As;
#define INGOT_AS(T, expression) \
  template <> \
  struct As<T> { \
    static T from(const Arguments& a, size_t i, const Attribute& v) { return expression; } \
  };
INGOT_AS(Value, a.tensor(i, v))
INGOT_AS(Complex, a.complex(i, v))
INGOT_AS(Scalar, a.scalar(i, v))
INGOT_AS(Dim, a.dim(i, v))
INGOT_AS(int64_t, a.integer(i, v))
INGOT_AS(double, a.number(i, v))
INGOT_AS(bool, a.boolean(i, v))
INGOT_AS(std::string, a.text(i, v))
INGOT_AS(DType, a.dtype(i, v))
#undef INGOT_AS
template <>
struct As<Operand> {  // a tensor or a number
  static Operand from(const Arguments& a, size_t i, const Attribute& v) {
    if (std::holds_alternative<ir::Ref>(v.value)) return a.tensor(i, v);
    return a.scalar(i, v);
  }
};
template <class T>
struct As<std::optional<T>> {
  static std::optional<T> from(const Arguments& a, size_t i, const Attribute& v) {
    if (v.is_none()) return std::nullopt;
    return As<T>::from(a, i, v);
  }
};
template <class T>
struct As<std::vector<T>> {
  static std::vector<T> from(const Arguments& a, size_t i, const Attribute& v) {
    std::vector<T> out;
    if (!std::holds_alternative<ir::List>(v.value)) {  // int[1] takes a plain int
      out.push_back(As<T>::from(a, i, v));
      return out;
    }
    for (const Attribute& part : a.list(i, v)) out.push_back(As<T>::from(a, i, part));
    return out;
  }
};

inline void collect(Results& out, Value v) { out.push_back(v); }
inline void collect(Results& out, const Complex& z) { out.push_back(z.im ? joined(z) : z.re); }
inline void collect(Results& out, const std::vector<Value>& v) { out.insert(out.end(), v.begin(), v.end()); }
inline void collect(Results& out, const std::pair<Value, Value>& v) {
  out.push_back(v.first);
  out.push_back(v.second);
}
inline void collect(Results& out, const std::tuple<Value, Value, Value>& v) {
  out.push_back(std::get<0>(v));
  out.push_back(std::get<1>(v));
  out.push_back(std::get<2>(v));
}

// How the dtypes of the operands are promoted before the body sees them; a definition of several tensors says it. Operands are tensors, and numbers
// without a default: alpha, beta and value take no part.
enum class Types : uint8_t {
  unstated,     // one tensor at most, of any dtype
  each,         // each operand has its own role (a condition, an index, a bias): the body promotes
  common,       // all get torch.result_type's dtype, so that nothing is computed in a narrower one
  floats,       // the same, integers and bools to float
  numbers,      // the same, and torch takes no bools
  only_floats,  // the same, and torch takes floating-point numbers only
  same,         // torch takes equal dtypes only; numbers stay as they are
};

using Body = Results (*)(const Arguments&);

template <class F, class R, class... P>
Results call(const Arguments& a, R (F::*)(P...) const) {
  auto bound = [&]<size_t... I>(std::index_sequence<I...>) {
    Results out;
    if constexpr (std::is_void_v<R>) {
      F{}(As<P>::from(a, I, a.at(I))...);
    } else {
      collect(out, F{}(As<P>::from(a, I, a.at(I))...));
    }
    return out;
  };
  return bound(std::index_sequence_for<P...>{});
}
// Bodies without tensors are given the graph first.
template <class F, class R, class... P>
Results call(const Arguments& a, R (F::*)(Graph&, P...) const) {
  auto bound = [&]<size_t... I>(std::index_sequence<I...>) {
    Results out;
    collect(out, F{}(a.graph, As<P>::from(a, I, a.at(I))...));
    return out;
  };
  return bound(std::index_sequence_for<P...>{});
}

// A body whose number of results depends on a size gets the number that torch recorded.
struct Recorded {
  size_t results;
};
template <class F, class R, class... P>
Results call(const Arguments& a, R (F::*)(Recorded, P...) const) {
  auto bound = [&]<size_t... I>(std::index_sequence<I...>) {
    Results out;
    collect(out, F{}(Recorded{a.recorded}, As<P>::from(a, I, a.at(I))...));
    return out;
  };
  return bound(std::index_sequence_for<P...>{});
}

struct Definition {
  const char* schema;
  Types types;
  Body body;
  template <class F>
  Definition(const char* text, Types t, F) : schema(text), types(t), body([](const Arguments& a) { return call<F>(a, &F::operator()); }) {}
  template <class F>
  Definition(const char* text, F f) : Definition(text, Types::unstated, f) {}
};

// The definition for complex numbers that runs one for real numbers on their parts; none if the operator has no such form.
std::optional<Operator> on_parts(const Operator& real);

struct Family {
  const char* name;
  std::span<const Definition> definitions;
};

}  // namespace ingot::ops
