#include "backend/cuda/compile/value_text.h"

#include <algorithm>

#include "backend/cuda/compile/expression.h"

namespace ingot::backend::cuda {

using ir::DType;
using Kind = Instruction::Kind;

namespace {

// True if a map by this operation has a literal operand for which `holds`; `other` receives the other operand.
template <class F>
bool has_literal(const FusedBody& body, Reg r, ir::Op op, const F& holds, Reg& other) {
  const Instruction& i = body.code[r];
  if (i.kind != Kind::map || i.op != op || i.in.size() != 2) return false;
  for (size_t k = 0; k < 2; ++k) {
    const Instruction& bound = body.code[i.in[k]];
    other = i.in[1 - k];
    if (bound.kind == Kind::literal && holds(bound.number.to_double())) return true;
  }
  return false;
}

// True if an index was clamped to the axis: max(min(x, a), b) with 0 <= b and a, b < dim.
bool is_clamped(const FusedBody& body, Reg index, const ir::Dim& dim) {
  if (!dim.is_constant()) return false;
  const auto end = static_cast<double>(dim.value());
  Reg below = index, any = index;
  return has_literal(body, index, ir::Op::max, [&](double b) { return 0 <= b && b < end; }, below) && has_literal(body, below, ir::Op::min, [&](double a) { return a < end; }, any);
}

// What a load has outside its operand.
std::string fill(const Instruction& i) { return i.lower.empty() ? fmt::format("({})0", value_type(i.dtype)) : literal(i.number, i.dtype); }

}  // namespace

std::string ValueText::ref(Reg r, const char* element) const {
  switch (walk.level[r]) {
    case Level::row: return fmt::format("r{}", r);
    case Level::unit: return fmt::format("r{}[u]", r);
    default: return fmt::format("r{}[u][{}]", r, element);
  }
}

std::string ValueText::shape(Level l) const { return l == Level::row ? "" : l == Level::unit ? fmt::format("[{}]", variant.units) : fmt::format("[{}][{}]", variant.units, unit); }

bool ValueText::sums_exponentials(Reg r) const {
  const Instruction& i = body.code[r];
  if (i.kind != Kind::reduce || i.reduction != Reduction::sum || i.dtype != DType::f32) return false;
  const Instruction& of = body.code[i.in[0]];
  return of.kind == Kind::map && of.op == ir::Op::exp;
}

void ValueText::pointers(const std::string& to) {
  for (size_t k = 0; k < body.code.size(); ++k) {
    if (body.code[k].kind != Kind::load) continue;
    size_t operand = body.code[k].operand;
    std::string_view type = memory_type(body.operands[operand]);
    line("const {}* const q{} = (const {}*)p.pointer[{}]{};", type, k, type, operand, offset(operand, static_cast<int>(k), 0, walk.outer, false));
  }
  for (size_t s = 0; s < body.stores.size(); ++s) {
    size_t operand = body.stores[s].operand;
    std::string_view type = memory_type(body.operands[operand]);
    std::string start = to.empty() ? fmt::format("({}*)p.pointer[{}]", type, operand) : to;
    line("{}* const t{} = {}{};", type, s, start, offset(operand, -1, 0, walk.outer, false));
  }
}

void ValueText::keep_rows() {
  kept = kept_loads(body, walk);
  line("extern __shared__ uint4 kept_rows[];");
  size_t before = 0;
  for (size_t k : kept) {
    DType t = body.operands[body.code[k].operand];
    line("{}* const kept{} = ({}*)((char*)kept_rows + (i64){} * {});", memory_type(t), k, memory_type(t), units_text(), before * static_cast<size_t>(unit));
    before += ir::size_of(t);
  }
}

ValueText::Checked ValueText::checked(size_t k, bool element) {
  const Instruction& i = body.code[k];
  Checked c;
  auto also = [&](const std::string& text) { c.condition += (c.condition.empty() ? "" : " && ") + text; };
  for (size_t axis = 0; axis < walk.guards[k].size(); ++axis) {
    if (!walk.guards[k][axis]) continue;
    also(fmt::format("(u64){} < (u64){}", shifted(static_cast<int>(k), static_cast<size_t>(walk.group_of[axis]), element), dim(i.operand, axis)));
  }
  for (size_t n = 0; n < i.in.size(); ++n) {
    size_t axis = walk.group_of.size() + n;
    if (!is_clamped(body, i.in[n], layouts[i.operand].dims[axis])) also(fmt::format("inside({}, {}, status)", ref(i.in[n]), dim(i.operand, axis)));
    c.offset += fmt::format(" + (i64){} * {}", ref(i.in[n]), stride(i.operand, axis));
  }
  return c;
}

void ValueText::load(size_t k) {
  const Instruction& i = body.code[k];
  if (is_transposed(i.operand)) {
    line("{} m{}{};", memory_type(body.operands[i.operand]), k, shape(Level::element));
    unroll("u", variant.units);
    line("m{}[u][0] = in{}{};", k, k, place_in_tile(true));
    close();
    return;
  }
  bool element = walk.level[k] == Level::element, vector = element && in_vectors(i.operand);
  Checked c = checked(k, element && !vector);
  bool each = element && !vector;
  std::string at = fmt::format("q{}{}{}", k, offset(i.operand, static_cast<int>(k), walk.outer, walk.groups.size(), each), c.offset);
  line("alignas(16) {} m{}{};", memory_type(body.operands[i.operand]), k, shape(walk.level[k]));
  if (!c.condition.empty()) line("bool in{}{};", k, each ? shape(Level::element) : shape(Level::unit));
  unroll("u", variant.units);
  if (each) unroll("v", unit);
  std::string where = each ? "[u][v]" : "[u]", condition, copy;
  if (!c.condition.empty()) {
    line("in{}{} = {};", k, where, c.condition);
    condition = fmt::format("in{}{}", k, where);
  }
  if (std::find(kept.begin(), kept.end(), k) != kept.end()) {
    // A thread reads only what it stored itself, so no barrier is needed.
    copy = fmt::format("kept{} + (i64)j[u] * {}{}", k, unit, each && unit > 1 ? " + v" : "");
    std::string own = condition.empty() ? "live[u]" : "live[u] && " + condition;
    if (pass > 0) {
      at = copy;
      condition = own;
    }
  }
  std::string guard = condition.empty() ? "" : fmt::format("if ({}) ", condition);
  if (vector) {
    line("{}read<{}>(m{}[u], {});", guard, unit, k, at);
  } else {
    line("{}m{}{} = *({});", guard, k, where, at);
  }
  if (!copy.empty() && pass == 0) {
    guard = condition.empty() ? "if (live[u]) " : fmt::format("if (live[u] && {}) ", condition);
    if (vector) {
      line("{}write<{}>({}, m{}[u]);", guard, unit, copy, k);
    } else {
      line("{}*({}) = m{}{};", guard, copy, k, where);
    }
  }
  if (each) close();
  close();
}

std::string ValueText::loaded(size_t k) {
  const Instruction& i = body.code[k];
  bool element = walk.level[k] == Level::element;
  std::string v = fmt::format("value(m{}{})", k, element ? "[u][v]" : "[u]");
  if (checked(k, element).condition.empty()) return v;
  return fmt::format("in{}{} ? {} : {}", k, element && !in_vectors(i.operand) ? "[u][v]" : "[u]", v, fill(i));
}

std::string ValueText::expression(size_t k) {
  const Instruction& i = body.code[k];
  switch (i.kind) {
    case Kind::literal: return literal(i.number, i.dtype);
    case Kind::size: return size(i.dim);
    case Kind::index: {
      int g = walk.group_of[i.axis];
      return g < 0 ? "0ll" : coordinate(static_cast<size_t>(g), walk.level[k] == Level::element);
    }
    case Kind::load: return loaded(k);
    case Kind::map: {
      if (i.op == ir::Op::div && sums_exponentials(i.in[1]) && walk.level[i.in[0]] != Level::row) return fmt::format("over_sum({}, r{}, i{})", ref(i.in[0]), i.in[1], i.in[1]);
      std::vector<Argument> in;
      for (Reg r : i.in) in.push_back({body.code[r].dtype, ref(r)});
      return map_expression(i.op, i.dtype, in, stores_halves(body));
    }
    default: fail(Code::internal, "instruction {} of a fused body has no expression", k);
  }
}

void ValueText::row_value(size_t k) {
  const Instruction& i = body.code[k];
  if (i.kind == Kind::load) {
    Checked c = checked(k, false);
    std::string v = fmt::format("value(*(q{}{}))", k, c.offset);
    line("const {} r{} = {};", value_type(i.dtype), k, c.condition.empty() ? v : fmt::format("{} ? {} : {}", c.condition, v, fill(i)));
  } else {
    line("const {} r{} = {};", value_type(i.dtype), k, expression(k));
  }
}

}  // namespace ingot::backend::cuda
