#include "ir/op.h"

#include <iterator>

namespace ingot::ir {

namespace {

namespace trait {
enum Trait : uint8_t { plain = 0, leaf = 1, generated = 2, view = 4, moves = 8, inlined = 16, anchor = 32, effect = 64 };
}

struct OpInfo {
  std::string_view name;
  int arity;
  ResultType result;
  Operands operands;
  Cost cost;
  int traits;
};

// The words of prim.def mean the traits, not functions of the same name.
#define TRAITS(words) \
  [] { \
    using namespace trait; \
    return static_cast<int>(words); \
  }()
constexpr OpInfo ops[] = {
#define MAP(name, arity, result, operands, cost) {#name, arity, ResultType::result, Operands::operands, Cost::cost, trait::inlined},
#define OP(name, cost, traits) {#name, -1, ResultType::same, Operands::any, Cost::cost, TRAITS(traits)},
#include "ir/prim.def"
};
#undef TRAITS

const OpInfo& info(Op op) { return ops[static_cast<int>(op)]; }
bool has(Op op, trait::Trait one) { return (info(op).traits & one) != 0; }

}  // namespace

std::string_view name_of(Op op) { return info(op).name; }

std::optional<Op> op_from_name(std::string_view name) {
  for (size_t i = 0; i < std::size(ops); ++i) {
    if (ops[i].name == name) return static_cast<Op>(i);
  }
  return std::nullopt;
}

bool is_map(Op op) { return info(op).arity > 0; }
int arity_of(Op op) { return info(op).arity; }
ResultType result_of(Op op) { return info(op).result; }
Operands operands_of(Op op) { return info(op).operands; }
bool takes_wide_unsigned(Op op) {
  switch (op) {
    case Op::select:
    case Op::eq:
    case Op::ne:
    case Op::mul:
    case Op::bit_and:
    case Op::bit_or:
    case Op::bit_xor:
    case Op::cast:
    case Op::branch:
    case Op::loop: return true;
    default: return moves(op);
  }
}
bool takes(Op op, DType t) {
  if (is_wide_unsigned(t)) return takes_wide_unsigned(op);
  switch (operands_of(op)) {
    case Operands::any: return true;
    case Operands::real: return !is_complex(t);
    case Operands::numbers: return is_float(t) || is_integer(t);
    case Operands::floats: return is_float(t);
    case Operands::wide_floats: return t == DType::f32 || t == DType::f64;
    case Operands::integers: return is_integer(t) || is_bool(t);
    case Operands::whole_numbers: return is_integer(t);
    case Operands::logical: return is_bool(t);
  }
  return false;
}
Cost cost_of(Op op) { return info(op).cost; }
bool is_leaf(Op op) { return has(op, trait::leaf); }
bool is_generated(Op op) { return has(op, trait::generated); }
bool is_view(Op op) { return has(op, trait::view); }
bool moves(Op op) { return has(op, trait::moves); }
bool is_inlined(Op op) { return has(op, trait::inlined); }
bool is_anchor(Op op) { return has(op, trait::anchor); }
bool has_effect(Op op) { return has(op, trait::effect); }

}  // namespace ingot::ir
