#include "backend/cuda/compile/expression.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "ir/scalar_functions.h"

namespace ingot::backend::cuda {

using ir::DType;
using ir::Op;

std::string_view memory_type(DType t) {
  if (ir::is_complex(t)) fail(Code::unsupported, "generated code does not compute in {}", ir::name_of(t));
  return ir::name_of(t);  // the prelude has the same names
}

std::string_view value_type(DType t) {
  switch (t) {
    case DType::b8: return "bool";
    case DType::u8:
    case DType::i8:
    case DType::i16:
    case DType::i32: return "int";
    case DType::i64: return "i64";
    case DType::f64: return "f64";
    case DType::f16:
    case DType::bf16:
    case DType::f32: return "f32";
    default: fail(Code::unsupported, "generated code does not compute in {}", ir::name_of(t));
  }
}

std::string literal(const ir::Scalar& s, DType t) {
  if (t == DType::f64) return fmt::format("of_bits({:#x}ull)", std::bit_cast<uint64_t>(s.to_double()));
  if (ir::is_float(t)) return fmt::format("of_bits({:#x}u)", std::bit_cast<uint32_t>(static_cast<float>(s.to_double())));
  int64_t v = s.to_int();
  if (t == DType::b8) return v != 0 ? "true" : "false";
  if (t == DType::i64) return fmt::format("(i64){:#x}ull", static_cast<uint64_t>(v));
  return fmt::format("(int){:#x}u", static_cast<uint32_t>(v));
}

namespace {

bool narrow(DType t) { return t == DType::u8 || t == DType::i8 || t == DType::i16; }

[[noreturn]] void no_meaning(Op op, DType t) { fail(Code::unsupported, "{} has no meaning on {}", ir::name_of(op), ir::name_of(t)); }

std::string on_float(Op op, bool f64, const std::string& a, const std::string& b) {
  // CUDA's own functions; the suffix "f" means single precision.
  auto call = [&](std::string_view name) { return b.empty() ? fmt::format("{}{}({})", name, f64 ? "" : "f", a) : fmt::format("{}{}({}, {})", name, f64 ? "" : "f", a, b); };
  auto own = [&](std::string_view name) { return b.empty() ? fmt::format("{}({})", name, a) : fmt::format("{}({}, {})", name, a, b); };
  auto called = [&](std::string_view name) { return own(fmt::format("{}_called", name)); };
  auto often = [&](std::string_view name) { return f64 ? called(name) : call(name); };  // in line in f32
  switch (op) {
    case Op::add: return a + " + " + b;
    case Op::sub: return a + " - " + b;
    case Op::mul: return a + " * " + b;
    case Op::div: return a + " / " + b;
    case Op::truncdiv: return fmt::format("trunc{}({} / {})", f64 ? "" : "f", a, b);
    case Op::floordiv: return own("floor_divided");
    case Op::mod: return own("modulo");
    case Op::fmod: return called("fmod");
    case Op::pow: return called("pow");
    case Op::min: return own("min_nan");
    case Op::max: return own("max_nan");
    case Op::fmin: return call("fmin");
    case Op::fmax: return call("fmax");
    case Op::atan2: return called("atan2");
    case Op::copysign: return call("copysign");
    case Op::hypot: return called("hypot");
    case Op::nextafter: return called("nextafter");
    case Op::neg: return "-" + a;
    case Op::abs: return call("fabs");
    case Op::sign: return own("sign_of");
    case Op::relu: return own("relu_of");
    case Op::exp: return call("exp");  // in line, so that those of a thread's elements overlap
    case Op::exp2: return own("exp2_of");
    case Op::expm1: return called("expm1");
    case Op::log: return often("log");
    case Op::log2: return often("log2");
    case Op::log10: return called("log10");
    case Op::log1p: return called("log1p");
    case Op::sqrt: return call("sqrt");
    case Op::rsqrt: return call("rsqrt");
    case Op::sin: return called("sin");
    case Op::cos: return called("cos");
    case Op::tan: return called("tan");
    case Op::asin: return called("asin");
    case Op::acos: return called("acos");
    case Op::atan: return called("atan");
    case Op::sinh: return called("sinh");
    case Op::cosh: return called("cosh");
    case Op::tanh: return often("tanh");
    case Op::asinh: return called("asinh");
    case Op::acosh: return called("acosh");
    case Op::atanh: return called("atanh");
    case Op::erf: return call("erf");
    case Op::erfc: return called("erfc");
    case Op::erfinv: return called("erfinv");
    case Op::lgamma: return own("lgamma_of");
    case Op::digamma: return own("digamma_of");
    case Op::gammainc: return fmt::format("incomplete_gamma({}, {}, false)", a, b);
    case Op::gammaincc: return fmt::format("incomplete_gamma({}, {}, true)", a, b);
    case Op::sigmoid: return own("sigmoid_of");
    case Op::gelu: return own("gelu_of");
    case Op::gelu_tanh: return own("gelu_tanh_of");
    case Op::silu: return own("silu_of");
    case Op::softplus: return own("softplus_of");
    case Op::floor: return call("floor");
    case Op::ceil: return call("ceil");
    case Op::trunc: return call("trunc");
    case Op::round: return call("rint");
    default: no_meaning(op, f64 ? DType::f64 : DType::f32);
  }
}

std::string on_integer(Op op, DType t, const std::string& a, const std::string& b) {
  auto own = [&](std::string_view name) { return b.empty() ? fmt::format("{}({})", name, a) : fmt::format("{}({}, {})", name, a, b); };
  auto dividing = [&](std::string_view name) { return fmt::format("{}({}, {}, status)", name, a, b); };
  auto shifting = [&](std::string_view name) { return fmt::format("{}<{}>({}, {})", name, ir::size_of(t) * 8, a, b); };
  switch (op) {
    case Op::add: return own("plus");
    case Op::sub: return own("minus");
    case Op::mul: return own("times");
    case Op::truncdiv: return dividing("quotient");
    case Op::floordiv: return dividing("floor_quotient");
    case Op::mod: return dividing("modulo_of");
    case Op::fmod: return dividing("remainder_of");
    case Op::pow: return own("power_of");
    case Op::min:
    case Op::fmin: return own("min_nan");
    case Op::max:
    case Op::fmax: return own("max_nan");
    case Op::gcd: return own("divisor_of");
    case Op::neg: return t == DType::i64 ? fmt::format("minus((i64)0, {})", a) : fmt::format("minus(0, {})", a);
    case Op::abs: return fmt::format("({} < 0 ? minus({}, {}) : {})", a, t == DType::i64 ? "(i64)0" : "0", a, a);
    case Op::sign: return own("sign_of");
    case Op::relu: return own("relu_of");
    case Op::floor:
    case Op::ceil:
    case Op::trunc:
    case Op::round: return a;
    case Op::bit_and: return a + " & " + b;
    case Op::bit_or: return a + " | " + b;
    case Op::bit_xor: return a + " ^ " + b;
    case Op::bit_not: return "~" + a;
    case Op::shift_left: return shifting("left");
    case Op::shift_right: return shifting("right");
    default: no_meaning(op, t);
  }
}

std::string on_bool(Op op, const std::string& a, const std::string& b) {
  switch (op) {
    case Op::bit_and:
    case Op::mul:
    case Op::min:
    case Op::fmin: return a + " && " + b;
    case Op::bit_or:
    case Op::add:
    case Op::max:
    case Op::fmax: return a + " || " + b;
    case Op::bit_xor:
    case Op::sub: return a + " != " + b;
    case Op::pow: return fmt::format("{} || !{}", a, b);
    case Op::bit_not:
    case Op::logical_not: return "!" + a;
    case Op::abs:
    case Op::sign:
    case Op::relu:
    case Op::floor:
    case Op::ceil:
    case Op::trunc:
    case Op::round: return a;
    default: no_meaning(op, DType::b8);
  }
}

std::string cast(DType to, const Argument& x) {
  std::string_view result = value_type(to);
  if (to == DType::b8) return fmt::format("{} != ({})0", x.text, value_type(x.dtype));
  if (to == DType::f16 || to == DType::bf16) return fmt::format("value(memory<{}>((f32){}))", ir::name_of(to), x.text);
  if (ir::is_float(to)) return fmt::format("({}){}", result, x.text);
  std::string v = ir::is_float(x.dtype) ? fmt::format("{}({})", ir::truncates_to_32_bits(to) ? "truncated_to_32_bits" : "truncated", x.text) : x.text;
  return narrow(to) || to == DType::i32 ? fmt::format("(int)({}){}", ir::name_of(to), v) : fmt::format("(i64){}", v);
}

std::string bitcast(DType to, const Argument& x) {
  switch (ir::is_float(to) ? to : x.dtype) {
    case DType::f64: return ir::is_float(to) ? fmt::format("__longlong_as_double({})", x.text) : fmt::format("__double_as_longlong({})", x.text);
    case DType::f32: return ir::is_float(to) ? fmt::format("__int_as_float((int){})", x.text) : fmt::format("__float_as_int({})", x.text);
    default:
      return ir::is_float(to) ? fmt::format("value({}{{(unsigned short){}}})", ir::name_of(to), x.text)
                              : fmt::format("(int)(i16)memory<{}>({}).bits", ir::name_of(x.dtype), x.text);
  }
}

}  // namespace

bool stores_halves(const FusedBody& body) {
  return !body.stores.empty() && std::all_of(body.stores.begin(), body.stores.end(), [&](const Store& s) { return ir::size_of(body.operands[s.operand]) == 2; });
}

std::string map_expression(Op op, DType dtype, std::span<const Argument> x, bool for_halves) {
  const bool has_version = op == Op::sigmoid || op == Op::silu || op == Op::gelu || op == Op::gelu_tanh;
  if (for_halves && dtype == DType::f32 && has_version) return fmt::format("{}_for_half({})", ir::name_of(op), x[0].text);
  if (op == Op::cast) return cast(dtype, x[0]);
  if (op == Op::bitcast) return bitcast(dtype, x[0]);
  if (op == Op::select) return fmt::format("{} ? {} : {}", x[0].text, x[1].text, x[2].text);
  if (ir::result_of(op) == ir::ResultType::boolean && op != Op::logical_not) {
    DType t = x[0].dtype;
    bool floats = ir::is_float(t);
    const std::string& a = x[0].text;
    switch (op) {
      case Op::eq: return fmt::format("{} == {}", a, x[1].text);
      case Op::ne: return fmt::format("{} != {}", a, x[1].text);
      case Op::lt: return fmt::format("{} < {}", a, x[1].text);
      case Op::le: return fmt::format("{} <= {}", a, x[1].text);
      case Op::gt: return fmt::format("{} > {}", a, x[1].text);
      case Op::ge: return fmt::format("{} >= {}", a, x[1].text);
      case Op::is_nan: return floats ? fmt::format("{} != {}", a, a) : "false";
      case Op::is_inf: return floats ? fmt::format("infinite({})", a) : "false";
      case Op::signbit: return floats ? fmt::format("negative({})", a) : fmt::format("{} < 0", a);
      default: no_meaning(op, t);
    }
  }
  // Operands may be of another integer type of the same class: the computation is in the result's type.
  std::string_view type = value_type(dtype);
  auto operand = [&](size_t k) { return k >= x.size() ? std::string() : value_type(x[k].dtype) == type ? x[k].text : fmt::format("({}){}", type, x[k].text); };
  std::string a = operand(0), b = operand(1);
  if (dtype == DType::b8) return on_bool(op, a, b);
  if (ir::is_float(dtype)) return on_float(op, dtype == DType::f64, a, b);
  std::string v = on_integer(op, dtype, a, b);
  if (narrow(dtype)) return fmt::format("(int)({})({})", ir::name_of(dtype), v);
  return op == Op::gcd && dtype != DType::i64 ? fmt::format("(int)({})", v) : v;
}

}  // namespace ingot::backend::cuda
