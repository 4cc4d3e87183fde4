// Rounds half values that decide something where eager rounds them.
//
// Pointwise operations on half values compute in float32 and round where a value is stored: that is faster, and closer to the exact result. An operator that is
// not continuous (comparison, floor, remainder, root of what may be negative) may give another result, even NaN, for one rounding more or less. So each half
// value from which pointwise operations lead to such an operator is rounded where torch's operator ended. Sums end the search: their order is not eager's.
#include "ir/half.h"
#include "lower/passes.h"
#include "lower/rewrite.h"

namespace ingot::lower {

namespace {

using ir::DType;

bool is_half(DType t) { return ir::is_float(t) && ir::size_of(t) == 2; }

// The operands (bit i: operand i) in which the node is not continuous: at some value of it the result jumps, or becomes infinite or NaN.
unsigned jumps(const Graph& g, const Node& node) {
  switch (node.op) {
    case Op::div:
    case Op::copysign: return 0b10;
    case Op::truncdiv:
    case Op::floordiv:
    case Op::mod:
    case Op::fmod:
    case Op::pow:
    case Op::atan2:
    case Op::gammainc:
    case Op::gammaincc:
    case Op::nextafter: return 0b11;
    case Op::sign:
    case Op::floor:
    case Op::ceil:
    case Op::trunc:
    case Op::round:
    case Op::log:
    case Op::log2:
    case Op::log10:
    case Op::log1p:
    case Op::sqrt:
    case Op::rsqrt:
    case Op::asin:
    case Op::acos:
    case Op::acosh:
    case Op::atanh:
    case Op::erfinv:
    case Op::lgamma:
    case Op::digamma:
    case Op::bitcast:
    case Op::sort:
    case Op::topk: return 0b1;
    case Op::grid_sample: return 0b10;
    case Op::cast: return is_float(g.type(node.out[0]).dtype) ? 0 : 0b1;
    case Op::reduce: return node.attributes.string("kind").starts_with("arg") ? 0b1 : 0;
    default: return is_map(node.op) && result_of(node.op) == ir::ResultType::boolean ? 0b11 : 0;
  }
}

// True if each element of the results depends on few elements of the operands.
bool is_elementwise(const Node& node) {
  if (node.op == Op::reduce) return node.attributes.string("kind") == "max" || node.attributes.string("kind") == "min";
  return is_map(node.op) || moves(node.op);
}

// True if the result for rounded operands needs no rounding.
bool keeps_halves(Op op) {
  switch (op) {
    case Op::cast:
    case Op::bitcast:
    case Op::neg:
    case Op::abs:
    case Op::sign:
    case Op::relu:
    case Op::floor:
    case Op::ceil:
    case Op::trunc:
    case Op::round: return true;
    default: return !is_map(op) && op != Op::matmul && op != Op::reduce;
  }
}

// all_results: also those that decide nothing.
std::vector<bool> values_to_round(const Graph& g, bool all_results) {
  std::vector<bool> decides(g.values.size(), false), ends_row(g.values.size(), false);
  for (size_t n = g.nodes.size(); n-- > 0;) {
    const Node& node = g.nodes[n];
    const unsigned jumping = jumps(g, node);
    bool all = false;
    for (ValueId v : node.out) all = all || (decides[v] && is_elementwise(node));
    for (size_t i = 0; i < node.in.size(); ++i) {
      if (all || (jumping >> i & 1) != 0) decides[node.in[i]] = true;
      if (node.group == 0 || node.group != maker(g, node.in[i]).group) ends_row[node.in[i]] = true;
    }
  }
  for (const ir::Output& o : g.outputs) ends_row[o.value] = true;
  for (ValueId v = 0; v < g.values.size(); ++v) decides[v] = (all_results || decides[v]) && ends_row[v] && is_half(g.type(v).dtype) && !keeps_halves(maker(g, v).op);
  return decides;
}

// For comparisons and remainders torch converts a number to the half type of its tensors; for arithmetic it keeps the number's bits.
std::optional<ValueId> rounded_number(Graph& g, const Node& node, ValueId v) {
  switch (node.op) {
    case Op::div:
    case Op::truncdiv:
    case Op::floordiv:
    case Op::pow:
    case Op::copysign: return std::nullopt;
    default: break;
  }
  if (!is(g, v, Op::literal)) return std::nullopt;
  const DType t = g.type(v).dtype;
  const ir::Scalar s = maker(g, v).attributes.scalar("value");
  if (!is_half(t)) return std::nullopt;
  const double half = ir::rounded_to(t, s.to_double());
  if (ir::Scalar(half) == s) return std::nullopt;
  return ir::literal(g, half, t).id();
}

void round(Graph& g, bool all_results) {
  const std::vector<bool> rounds = values_to_round(g, all_results);
  rewrite(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& given) -> std::optional<ValueId> {
    if (node.out.size() != 1) return std::nullopt;
    const ir::Type type = g.type(node.out[0]);
    std::vector<ValueId> in = given;
    const unsigned jumping = is_map(node.op) ? jumps(g, node) : 0;
    for (size_t i = 0; i < in.size(); ++i) {
      if ((jumping >> i & 1) != 0) in[i] = rounded_number(to, node, in[i]).value_or(in[i]);
    }
    const bool round = rounds[node.out[0]];
    if (!round && in == given) return std::nullopt;
    ValueId v = to.add(node.op, std::move(in), node.attributes, type);
    to.values[v].name = g.values[node.out[0]].name;
    return round ? to.add(Op::cast, {v}, {{"dtype", type.dtype}}, type) : v;
  });
}

}  // namespace

void rounding(Graph& g) { round(g, false); }

void round_results(Graph& g) {
  round(g, true);
  ir::verify(g, ir::Level::canonical);
}

}  // namespace ingot::lower
