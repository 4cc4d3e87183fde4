#include "compile/schedule/pull.h"

#include <algorithm>

#include "compile/schedule/domain.h"
#include "compile/schedule/merged_points.h"
#include "ir/reshape_groups.h"

namespace ingot::compile {

using namespace ir;
using backend::Instruction;
using backend::Reduction;
using backend::Reg;

namespace {

Reduction reduction_of(const std::string& kind) {
  static const std::map<std::string, Reduction> kinds = {{"sum", Reduction::sum}, {"prod", Reduction::prod}, {"max", Reduction::max},       {"min", Reduction::min},
                                                         {"any", Reduction::any}, {"all", Reduction::all},   {"argmax", Reduction::argmax}, {"argmin", Reduction::argmin}};
  return kinds.at(kind);
}

// The point of an operand that broadcasts to the result's shape.
Point broadcast_point(const Puller& p, ValueId operand, const Point& at) {
  const Dims& dims = p.graph.type(operand).dims;
  Point out(dims.size());
  size_t lead = at.size() - dims.size();
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!(dims[d] == Dim(1))) out[d] = at[lead + d];
  }
  return out;
}

// The sum of a GEMM whose B is encoded, times the scale of its column.
Reg scaled_sum(Puller& p, ValueId v, Reg sum, const Point& at) {
  const EncodedB* b = p.plan.encoded(p.graph.producer(v));
  if (b == nullptr || b->scale == none_id || b->grouped()) return sum;
  return p.map(Op::mul, DType::f32, {sum, p.value(b->scale, broadcast_point(p, b->scale, at))});
}

// What is stored is read as the other type, so that all bits stay, also those of a NaN.
Reg pull_bitcast(Puller& p, const Node& node, const Point& at) {
  const DType from = p.graph.type(node.in[0]).dtype, to = p.graph.type(node.out[0]).dtype;
  if (auto place = p.plan.resolve(node.in[0]); place && place->dtype == from) {
    place->dtype = to;
    return p.load(*place, at);
  }
  Reg in = p.value(node.in[0], at);
  if (compute_type(from) != from) in = p.map(Op::cast, from, {in});
  p.label(node.op);
  return p.map(Op::bitcast, to, {in});
}

Point through(const AffineMap& map, const Point& at) {
  Point out(map.axes.size());
  for (size_t j = 0; j < map.axes.size(); ++j) {
    out[j].offset = map.axes[j].offset;
    for (const AffineMap::Term& t : map.axes[j].terms) add(out[j], scaled(at[t.axis], Dim(t.coefficient)));
  }
  return out;
}

Reg pull_view(Puller& p, const Node& node, const Point& at) {
  const AffineMap& map = node.attributes.map("map");
  Point inner = through(map, at);
  if (!map.fill) return p.value(node.in[0], inner);
  p.label_text("pad");
  auto place = p.plan.require(node.in[0]);
  if (!place) return p.missing(place.missing().value);
  return p.guarded(*place, inner, *map.fill, node.out[0]);
}

// The value to store so that this chain of views becomes a layout.
ValueId base_to_store(const StoragePlan& s, ValueId v) {
  const Node& node = s.graph().producer(v);
  if ((node.op == Op::view && !node.attributes.map("map").fill) || node.op == Op::reshape) {
    ValueId b = base_to_store(s, node.in[0]);
    // If it is stored and still has no layout, the view itself must be copied.
    return s.stored[b] ? v : b;
  }
  return v;
}

Reg pull_reshape(Puller& p, const Node& node, const Point& at) {
  const Dims &from = p.graph.type(node.in[0]).dims, &to = p.graph.type(node.out[0]).dims;
  // A reshape of a value in memory is read through that value's layout, even if the reshape has memory of its own.
  if (auto place = p.plan.resolve(node.in[0])) {
    if (auto window = through_reshape(place->layout, to)) {
      place->layout = std::move(*window);
      return p.load(*place, at);
    }
  }
  Point inner(from.size());
  for (const ReshapeGroup& group : reshape_groups(from, to)) {
    // Merged axes have an affine index only if the domain has the same axes.
    if (group.from.size() > 1) {
      Dims sizes;
      for (size_t d : group.from) sizes.push_back(from[d]);
      const auto parts = group.to.size() == 1 ? split_coordinate(at[group.to[0]], sizes, p.domain) : std::nullopt;
      if (!parts) return p.missing(base_to_store(p.plan, node.in[0]));
      for (size_t k = 0; k < sizes.size(); ++k) inner[group.from[k]] = (*parts)[k];
      continue;
    }
    Dim stride = 1;
    for (size_t k = group.to.size(); k-- > 0 && !group.from.empty();) {
      add(inner[group.from[0]], scaled(at[group.to[k]], stride));
      stride *= to[group.to[k]];
    }
  }
  return p.value(node.in[0], inner);
}

Reg pull_reduce(Puller& p, const Node& node, const Point& at) {
  const ValueId v = node.out[0];
  const Dims& full = p.graph.type(node.in[0]).dims;
  std::vector<int64_t> axes = node.attributes.integers("axes");
  bool keep = node.attributes.boolean("keep");
  auto outer = static_cast<uint32_t>(p.out.body.outer.size());
  for (const Coordinate& c : at) {
    for (const auto& [axis, coefficient] : c.terms) {
      if (axis >= outer) return p.missing(v);
    }
  }
  Point inner(full.size());
  size_t k = 0, row = 0;
  for (size_t d = 0; d < full.size(); ++d) {
    bool reduced = axes.empty() || std::count(axes.begin(), axes.end(), static_cast<int64_t>(d)) != 0;
    if (!reduced) {
      inner[d] = at[k++];
      continue;
    }
    if (keep) ++k;
    if (row == p.out.body.row.size() || !(p.out.body.row[row] == full[d])) return p.missing(v);
    inner[d].terms[outer + static_cast<uint32_t>(row++)] = 1;
  }
  if (row != p.out.body.row.size() && !(full.empty() && p.out.body.row == Dims{1})) return p.missing(v);  // a row of one element is the whole of a scalar
  Instruction i{};
  i.kind = Instruction::Kind::reduce;
  i.reduction = reduction_of(node.attributes.string("kind"));
  i.dtype = compute_type(p.graph.type(v).dtype);
  i.in = {p.value(node.in[0], inner)};
  p.label_text(node.attributes.string("kind"));
  Reg r = p.push(std::move(i));
  if (p.missing_value == none_id && p.stages_of(r) > 3) return p.missing(p.plan.stored[v] ? p.last_reduction : v);  // keep this body's last stage and store what it reads
  p.last_reduction = v;
  return r;
}

// What precedes the axis stays as it is, so that the error names the index that was given.
Reg wrapped(Puller& p, Reg index, const Dim& extent) {
  const Reg zero = p.number(int64_t{0}, DType::i64), from_end = p.map(Op::add, DType::i64, {index, p.size(extent)});
  const Reg inside = p.map(Op::select, DType::i64, {p.map(Op::lt, DType::b8, {from_end, zero}), index, from_end});
  return p.map(Op::select, DType::i64, {p.map(Op::lt, DType::b8, {index, zero}), inside, index});
}

Reg pull_gather(Puller& p, const Node& node, const Point& at) {
  const Dims& table = p.graph.type(node.in[0]).dims;
  std::vector<int64_t> axes = node.attributes.integers("axes");
  auto position = static_cast<size_t>(node.attributes.integer("position"));
  bool wrap = node.attributes.boolean("wrap");
  size_t index_rank = at.size() + axes.size() - table.size();
  Point index_point(at.begin() + static_cast<int64_t>(position), at.begin() + static_cast<int64_t>(position + index_rank));
  Point table_point(table.size());
  std::vector<std::pair<size_t, Reg>> registers;
  size_t rest = 0;
  for (size_t d = 0; d < table.size(); ++d) {
    auto found = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d));
    if (found == axes.end()) {
      table_point[d] = at[rest < position ? rest : rest + index_rank];
      ++rest;
      continue;
    }
    ValueId index = node.in[1 + static_cast<size_t>(found - axes.begin())];
    Reg r = p.value(index, broadcast_point(p, index, index_point));
    registers.push_back({d, wrap ? wrapped(p, r, table[d]) : r});
  }
  auto table_place = p.plan.require(node.in[0]);
  if (!table_place) return p.missing(table_place.missing().value);
  return p.gathered(*table_place, registers, table_point);
}

Reg pull_take_along(Puller& p, const Node& node, const Point& at) {
  auto axis = static_cast<size_t>(node.attributes.integer("axis"));
  Reg r = p.value(node.in[1], at);
  Point point = at;
  point[axis] = {};
  auto place = p.plan.require(node.in[0]);
  if (!place) return p.missing(place.missing().value);
  return p.gathered(*place, {{axis, r}}, point);
}

Reg pull_anchor(Puller& p, ValueId v, const Point& at) {
  const Dims& dims = p.graph.type(v).dims;
  Point itself = identity(dims);
  const bool second = p.out.gated && at.back().offset == p.domain.back();
  if (second) itself.back().offset = p.domain.back();
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!(at[d] == itself[d]) && !(dims[d] == Dim(1))) return p.missing(v);
  }
  return scaled_sum(p, v, p.accumulator(compute_type(p.graph.type(v).dtype), second), at);
}

Reg pull_map(Puller& p, const Node& node, const Point& at) {
  std::vector<Reg> in;
  for (ValueId o : node.in) in.push_back(p.value(o, broadcast_point(p, o, at)));
  const DType type = p.graph.type(node.out[0]).dtype;
  p.label(node.op);
  if (node.op != Op::cast) return p.map(node.op, compute_type(type), std::move(in));
  // Casts of the user round half values; other half arithmetic stays in float32.
  const DType from = p.graph.type(node.in[0]).dtype;
  const bool widens = is_float(from) && type == DType::f32 && compute_type(from) == DType::f32;
  return widens ? in[0] : p.map(Op::cast, type, std::move(in));
}

}  // namespace

Reg Puller::value(ValueId v, const Point& at) {
  if (missing_value != none_id) return 0;
  for (const auto& [key, reg] : pulled_) {
    if (key.first == v && key.second == at) return reg;
  }
  Reg r = pull(v, at);
  pulled_.push_back({{v, at}, r});
  return r;
}

Reg Puller::pull(ValueId v, const Point& at) {
  if (auto place = plan.resolve(v)) return load(*place, at);
  return compute(v, at);
}

Reg Puller::compute(ValueId v, const Point& at) {
  if (v == anchor) return pull_anchor(*this, v, at);
  const Node& node = graph.producer(v);
  const Attributes& a = node.attributes;
  switch (node.op) {
    case Op::literal: return number(a.scalar("value"), compute_type(a.dtype("dtype")));
    case Op::size: return size(a.dim("dim"));
    case Op::index: return coordinate(at[static_cast<size_t>(a.integer("axis"))]);
    case Op::bitcast: return pull_bitcast(*this, node, at);
    case Op::view: return pull_view(*this, node, at);
    case Op::reshape: return pull_reshape(*this, node, at);
    case Op::reduce: return pull_reduce(*this, node, at);
    case Op::gather: return pull_gather(*this, node, at);
    case Op::take_along: return pull_take_along(*this, node, at);
    default: break;
  }
  if (is_map(node.op)) return pull_map(*this, node, at);
  return missing(plan.is_anchor(v) ? with_own_epilogue(plan, v) : v);
}

}  // namespace ingot::compile
