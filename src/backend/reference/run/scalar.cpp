#include "backend/reference/run/scalar.h"

#include <algorithm>

#include "base/error.h"
#include "ir/half.h"
#include "ir/scalar_functions.h"

namespace ingot::backend::reference {

using ir::DType;
using ir::Op;

Element rounded(DType t, const Element& e) {
  if (!is_float(t)) return {0, ir::wrap_to(t, e.i)};
  return {t == DType::f32 ? static_cast<double>(static_cast<float>(e.f)) : ir::rounded_to(t, e.f), 0};
}

Element map(Op op, DType to, std::span<const DType> from, std::span<const Element> in) { return rounded(to, ir::map_element(op, to, from, in)); }

void check_map(Op op, DType to, std::span<const DType> from) {
  auto refuse = [&] { fail(Code::format, "a body maps types that {} does not take", ir::name_of(op)); };
  if (!ir::is_map(op) || static_cast<int>(from.size()) != ir::arity_of(op)) refuse();
  if (op == Op::bitcast && !ir::has_bits_of(to, from[0])) refuse();
  if (op == Op::cast || op == Op::bitcast) return;
  const bool boolean = ir::result_of(op) == ir::ResultType::boolean;
  const bool floating = is_float(boolean ? from[0] : to);
  const auto others = op == Op::select ? from.subspan(1) : from;
  const bool alike = std::all_of(others.begin(), others.end(), [&](DType t) { return is_float(t) == floating; });
  const bool flags = (op != Op::select && op != Op::logical_not) || !is_float(from[0]);
  const bool takes = alike && flags && (op != Op::nextafter || floating);
  if (!takes || (boolean && is_float(to))) refuse();
  try {
    const Element ones[] = {{1, 1}, {1, 1}, {1, 1}};
    static_cast<void>(map(op, to, from, std::span(ones).first(from.size())));
  } catch (const Error&) {
    refuse();
  }
}

}  // namespace ingot::backend::reference
