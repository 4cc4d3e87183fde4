#include "compile/schedule/body_writer.h"

#include <algorithm>

#include "kernels/fused/run/fused_args.h"

namespace ingot::compile {

using namespace ir;
using backend::Instruction;
using backend::Reg;

Coordinate scaled(const Coordinate& c, const Dim& by) {
  Coordinate out{c.offset * by, {}};
  for (const auto& [axis, coefficient] : c.terms) out.terms[axis] = coefficient * by;
  return out;
}

void add(Coordinate& to, const Coordinate& c) {
  to.offset += c.offset;
  for (const auto& [axis, coefficient] : c.terms) {
    Dim& sum = to.terms.try_emplace(axis, Dim(0)).first->second;
    sum += coefficient;
    if (sum == Dim(0)) to.terms.erase(axis);
  }
}

namespace {

Dims concatenated(Dims a, const Dims& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

BodyWriter::BodyWriter(const Graph& g, const Dims& outer, const Dims& row) : domain(concatenated(outer, row)), symbols_(g.symbols) {
  out.body.outer = outer;
  out.body.row = row;
}

Reg BodyWriter::push(Instruction i) {
  out.body.code.push_back(std::move(i));
  return static_cast<Reg>(out.body.code.size() - 1);
}

Reg BodyWriter::map(Op op, DType t, std::vector<Reg> in) {
  for (size_t k = 0; k < out.body.code.size(); ++k) {
    const Instruction& c = out.body.code[k];
    if (c.kind == Instruction::Kind::map && c.op == op && c.dtype == t && c.in == in) return static_cast<Reg>(k);
  }
  Instruction i{};
  i.kind = Instruction::Kind::map;
  i.op = op;
  i.dtype = t;
  i.in = std::move(in);
  return push(std::move(i));
}

Reg BodyWriter::number(Scalar s, DType t) {
  for (size_t k = 0; k < out.body.code.size(); ++k) {
    const Instruction& c = out.body.code[k];
    if (c.kind == Instruction::Kind::literal && c.dtype == t && c.number == s) return static_cast<Reg>(k);
  }
  Instruction i{};
  i.kind = Instruction::Kind::literal;
  i.dtype = t;
  i.number = std::move(s);
  return push(std::move(i));
}

Reg BodyWriter::size(const Dim& d) {
  if (auto c = d.constant()) return number(*c, DType::i64);
  Instruction i{};
  i.kind = Instruction::Kind::size;
  i.dtype = DType::i64;
  i.dim = d;
  return push(std::move(i));
}

Reg BodyWriter::axis_index(uint32_t axis) {
  for (size_t k = 0; k < out.body.code.size(); ++k) {
    const Instruction& c = out.body.code[k];
    if (c.kind == Instruction::Kind::index && c.axis == axis) return static_cast<Reg>(k);
  }
  Instruction i{};
  i.kind = Instruction::Kind::index;
  i.dtype = DType::i64;
  i.axis = axis;
  return push(std::move(i));
}

Reg BodyWriter::coordinate(const Coordinate& c) {
  std::optional<Reg> sum;
  for (const auto& [axis, coefficient] : c.terms) {
    Reg r = axis_index(axis);
    if (!(coefficient == Dim(1))) r = map(Op::mul, DType::i64, {r, size(coefficient)});
    sum = sum ? map(Op::add, DType::i64, {*sum, r}) : r;
  }
  if (!sum) return size(c.offset);
  if (!(c.offset == Dim(0))) sum = map(Op::add, DType::i64, {*sum, size(c.offset)});
  return *sum;
}

Reg BodyWriter::accumulator(DType type, bool second) {
  for (size_t k = 0; k < out.body.code.size(); ++k) {
    const Instruction& c = out.body.code[k];
    if (c.kind == Instruction::Kind::accumulator && c.half == static_cast<uint32_t>(second)) return static_cast<Reg>(k);
  }
  Instruction i{};
  i.kind = Instruction::Kind::accumulator;
  i.half = second;
  i.dtype = type;
  return push(std::move(i));
}

StridedLayout BodyWriter::over_domain(const StridedLayout& w, const Point& at) {
  StridedLayout out{domain, Dims(domain.size(), Dim(0)), w.offset};
  for (size_t d = 0; d < at.size(); ++d) {
    out.offset += w.strides[d] * at[d].offset;
    for (const auto& [axis, coefficient] : at[d].terms) out.strides[axis] += w.strides[d] * coefficient;
  }
  for (size_t d = 0; d < domain.size(); ++d) {
    // An axis that may be empty keeps its size: an empty body may belong to an empty buffer.
    if (out.strides[d] == Dim(0) && known_less(0, domain[d], symbols_) == Truth::yes) out.dims[d] = 1;
  }
  return out;
}

uint32_t BodyWriter::operand(BufferView place) {
  for (size_t k = 0; k < out.operands.size(); ++k) {
    if (out.operands[k] == place) {
      return static_cast<uint32_t>(k);
    }
  }
  out.body.operands.push_back(place.dtype);
  out.operands.push_back(std::move(place));
  return static_cast<uint32_t>(out.operands.size() - 1);
}

Reg BodyWriter::load(const BufferView& place, const Point& at) {
  BufferView p = place;
  p.layout = over_domain(place.layout, at);
  uint32_t k = operand(std::move(p));
  for (size_t r = 0; r < out.body.code.size(); ++r) {
    const Instruction& c = out.body.code[r];
    if (c.kind == Instruction::Kind::load && c.operand == k && c.in.empty() && c.lower.empty()) return static_cast<Reg>(r);
  }
  Instruction i{};
  i.kind = Instruction::Kind::load;
  i.dtype = compute_type(place.dtype);
  i.operand = k;
  return push(std::move(i));
}

Reg BodyWriter::guarded(const BufferView& place, const Point& at, const Scalar& fill, ValueId padded) {
  // Each axis of `at` either follows one domain axis or is constant.
  BufferView p = place;
  StridedLayout w{domain, Dims(domain.size(), Dim(0)), place.layout.offset};
  std::vector<Dim> lower(domain.size(), Dim(0));
  std::vector<int64_t> step(domain.size(), 1);
  std::vector<bool> taken(domain.size(), false);
  for (size_t d = 0; d < domain.size(); ++d) w.dims[d] = domain[d];
  for (size_t d = 0; d < at.size(); ++d) {
    const Coordinate& c = at[d];
    if (c.terms.empty()) {
      const auto where = c.offset.constant(), extent = place.layout.dims[d].constant();
      if (where && (*where < 0 || (extent && *where >= *extent))) return number(fill, compute_type(place.dtype));
      if (!where || known_less(*where, place.layout.dims[d], symbols_) != Truth::yes) return missing(padded);
      w.offset += place.layout.strides[d] * c.offset;
      continue;
    }
    const auto& [axis, coefficient] = *c.terms.begin();
    const auto by = coefficient.constant();
    if (c.terms.size() != 1 || !by || *by < 1 || *by > kernels::max_guard_step || taken[axis]) return missing(padded);
    taken[axis] = true;
    w.strides[axis] = place.layout.strides[d];
    w.dims[axis] = place.layout.dims[d];
    lower[axis] = -c.offset;
    step[axis] = *by;
  }
  for (size_t d = 0; d < domain.size(); ++d) {
    if (!taken[d]) w.dims[d] = domain[d];
  }
  p.layout = std::move(w);
  Instruction i{};
  i.kind = Instruction::Kind::load;
  i.dtype = compute_type(place.dtype);
  i.operand = operand(std::move(p));
  i.number = fill;
  i.lower = std::move(lower);
  if (std::any_of(step.begin(), step.end(), [](int64_t s) { return s != 1; })) i.step = std::move(step);
  return push(std::move(i));
}

// The longest chain of reductions that ends in this register.
int BodyWriter::stages_of(Reg r) {
  std::vector<int> depth(r + 1, 0);
  for (Reg k = 0; k <= r; ++k) {
    const Instruction& c = out.body.code[k];
    for (Reg in : c.in) depth[k] = std::max(depth[k], depth[in]);
    depth[k] += c.kind == Instruction::Kind::reduce;
  }
  return depth[r];
}

// A load whose gathered axes are indexed by registers; `point` gives the other axes.
Reg BodyWriter::gathered(const BufferView& table, const std::vector<std::pair<size_t, Reg>>& axes, const Point& point) {
  StridedLayout w = over_domain(table.layout, point);
  for (const auto& [axis, reg] : axes) {
    w.dims.push_back(table.layout.dims[axis]);
    w.strides.push_back(table.layout.strides[axis]);
  }
  BufferView p = table;
  p.layout = std::move(w);
  Instruction i{};
  i.kind = Instruction::Kind::load;
  i.dtype = compute_type(table.dtype);
  i.operand = operand(std::move(p));
  for (const auto& [axis, reg] : axes) i.in.push_back(reg);
  label_text("gather");
  return push(std::move(i));
}

Reg BodyWriter::missing(ValueId v) {
  if (missing_value == none_id) missing_value = v;
  return number(int64_t{0}, DType::i64);
}

void BodyWriter::label(Op op) {
  if (op != Op::cast) label_text(std::string(name_of(op)));
}

void BodyWriter::label_text(const std::string& text) {
  if (names_.size() < 6 && std::find(names_.begin(), names_.end(), text) == names_.end()) names_.push_back(text);
}

WrittenBody BodyWriter::finish(DType type, Reg result) {
  out.body.operands.push_back(type);
  out.body.stores.push_back({static_cast<uint32_t>(out.operands.size()), result});
  for (const std::string& n : names_) out.label += (out.label.empty() ? "" : " + ") + n;
  if (out.label.empty()) out.label = "copy";
  return std::move(out);
}

}  // namespace ingot::compile
