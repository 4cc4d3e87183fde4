#include "compile/schedule/writer.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/error.h"
#include "compile/schedule/merged_points.h"
#include "ir/reshape_groups.h"

namespace ingot::compile {

using namespace ir;
using backend::FusedBody;
using backend::Instruction;
using backend::Reduction;
using backend::Reg;

namespace {

Reduction reduction_of(const std::string& kind) {
  static const std::map<std::string, Reduction> kinds = {{"sum", Reduction::sum}, {"prod", Reduction::prod}, {"max", Reduction::max},       {"min", Reduction::min},
                                                         {"any", Reduction::any}, {"all", Reduction::all},   {"argmax", Reduction::argmax}, {"argmin", Reduction::argmin}};
  return kinds.at(kind);
}

class Writer : BodyWriter {
 public:
  explicit Writer(const StoragePlan& s) : BodyWriter(s.graph()), s_(s), g_(s.graph()) {}

  Outcome<WrittenBody> write(ValueId value, BufferView target, bool itself) {
    // Compute the value below the views, and store it through their inverse: merged axes have no affine index, the axes before a reshape do, and rows can be
    // reduced only in the operand's order. Stop at a view that would make contiguous rows strided, unless a GEMM below it can have the body as its epilogue.
    for (const Node* node = &g_.producer(value); itself || !s_.stored[value]; node = &g_.producer(value)) {
      std::optional<StridedLayout> layout;
      if (node->op == Op::reshape) layout = through_reshape(target.layout, g_.type(node->in[0]).dims);
      if (node->op == Op::view) layout = before_view(target.layout, node->attributes.map("map"), g_.type(node->in[0]).dims);
      if (node->op == Op::bitcast && target.dtype == g_.type(value).dtype) {  // the same bits are stored, also those of a NaN
        target.dtype = g_.type(node->in[0]).dtype;
        value = node->in[0];
        itself = false;
        continue;
      }
      if (!layout || (has_contiguous_rows(target.layout) && !has_contiguous_rows(*layout) && !is_permutation(*node) && !has_anchor(node->in[0]))) break;
      target.layout = std::move(*layout);
      value = node->in[0];
      itself = false;
    }
    Point at = choose_domain(value, itself);
    if (missing_ != none_id) return Missing{missing_};
    Reg result = itself ? compute(value, at) : pull(value, at);
    if (missing_ != none_id) return Missing{missing_};
    BufferView store = target;
    StridedLayout over;
    over.dims = domain_;
    over.offset = target.layout.offset;
    over.strides.assign(domain_.size(), Dim(0));
    for (size_t d = 0; d < at.size(); ++d) {
      over.offset += target.layout.strides[d] * at[d].offset;
      for (const auto& [axis, coefficient] : at[d].terms) over.strides[axis] += target.layout.strides[d] * coefficient;
    }
    // A result that is uniform along the row is stored once.
    if (uniform_store_) {
      for (size_t d = out_.body.outer.size(); d < domain_.size(); ++d) over.dims[d] = 1;
    }
    store.layout = std::move(over);
    out_.body.operands.push_back(store.dtype);
    out_.body.stores.push_back({static_cast<uint32_t>(out_.operands.size()), result});
    out_.operands.push_back(std::move(store));
    finish();
    return std::move(out_);
  }

  Outcome<WrittenBody> write_mask(ValueId mask, const Dims& scores, DType dtype) {
    domain_ = scores;
    out_.body.outer.assign(scores.begin(), scores.end() - 1);
    out_.body.row = {scores.back()};
    Point at(g_.type(mask).dims.size());
    size_t lead = scores.size() - at.size();
    for (size_t d = 0; d < at.size(); ++d) {
      if (!(g_.type(mask).dims[d] == Dim(1))) at[d].terms[static_cast<uint32_t>(lead + d)] = 1;
    }
    Instruction score{};
    score.kind = Instruction::Kind::accumulator;
    score.dtype = dtype;
    Reg accumulator = push(score);
    Reg m = value(mask, at);
    if (missing_ != none_id) return Missing{missing_};
    Reg result;
    if (g_.type(mask).dtype == DType::b8) {
      result = map(Op::select, dtype, {m, accumulator, number(-std::numeric_limits<double>::infinity(), dtype)});
    } else {
      result = map(Op::add, dtype, {accumulator, m});
    }
    out_.body.operands.push_back(dtype);
    out_.body.stores.push_back({static_cast<uint32_t>(out_.operands.size()), result});
    finish();
    return std::move(out_);
  }

 private:
  static bool has_contiguous_rows(const StridedLayout& w) { return !w.strides.empty() && w.strides.back() == Dim(1); }
  bool is_permutation(const Node& node) const { return node.op == Op::reshape || is_bijective(node.attributes.map("map"), g_.type(node.in[0]).dims); }

  bool has_anchor(ValueId v) {
    std::set<ValueId> seen;
    return find_anchor(v, seen, false) != none_id;
  }

  // ---- domain

  // Finds the reductions that will be inlined, nearest first.
  void find_reductions(ValueId v, std::vector<NodeId>& found, std::set<ValueId>& seen, bool first) {
    if (!seen.insert(v).second) return;
    if (!first && s_.stored[v]) return;
    NodeId n = g_.values[v].producer;
    const Node& node = g_.nodes[n];
    if (s_.is_anchor(v) || node.op == Op::attention || ir::is_leaf(node.op)) return;
    if (node.op == Op::reduce) found.push_back(n);
    if (!first && s_.resolve(v)) return;
    size_t from = node.op == Op::gather || node.op == Op::take_along ? 1 : 0;
    for (size_t i = from; i < node.in.size(); ++i) find_reductions(node.in[i], found, seen, false);
  }

  // Finds the anchor that is inlined here, or none_id.
  ValueId find_anchor(ValueId v, std::set<ValueId>& seen, bool first) {
    if (!seen.insert(v).second || (!first && s_.stored[v])) return none_id;
    const Node& node = g_.producer(v);
    if (s_.is_anchor(v)) return v;
    ValueId found = none_id;
    for (ValueId in : node.in) {
      ValueId a = find_anchor(in, seen, false);
      // With several, take the last: the others are computed before it.
      if (a != none_id && (found == none_id || a > found)) found = a;
    }
    return found;
  }

  static Dims without_units(Dims dims) {
    std::erase(dims, Dim(1));
    return dims;
  }

  Point identity(const Dims& dims) {
    Point at(dims.size());
    for (size_t d = 0; d < dims.size(); ++d) at[d].terms[static_cast<uint32_t>(d)] = 1;
    return at;
  }

  Point no_domain(ValueId v) {
    missing(v);
    return {};
  }

  // True if the reduced axes of `full` are its last ones, `dims` ends in the same axes, and the others have equal element counts.
  static bool has_rows(const Dims& dims, const Dims& full, const std::vector<bool>& reduced) {
    const auto rows = static_cast<size_t>(std::count(reduced.begin(), reduced.end(), true));
    if (rows == 0 || dims.size() < rows || std::count(reduced.end() - static_cast<int64_t>(rows), reduced.end(), true) != static_cast<int64_t>(rows)) return false;
    return std::equal(dims.end() - static_cast<int64_t>(rows), dims.end(), full.end() - static_cast<int64_t>(rows)) && product(dims) == product(full);
  }

  // Chooses the domain and returns the point of `value` in it.
  Point choose_domain(ValueId value, bool itself) {
    std::set<ValueId> seen;
    anchor_ = find_anchor(value, seen, itself);
    std::vector<NodeId> reductions;
    seen.clear();
    find_reductions(value, reductions, seen, itself);
    if (anchor_ != none_id) return reductions.empty() ? domain_of_anchor(value, itself) : no_domain(with_own_epilogue(anchor_));
    if (!reductions.empty()) return domain_of_reduction(value, g_.nodes[reductions[0]]);
    const Dims& dims = g_.type(value).dims;
    domain_ = dims.empty() ? Dims{Dim(1)} : dims;
    out_.body.outer.assign(domain_.begin(), domain_.end() - 1);
    out_.body.row = {domain_.back()};
    return identity(dims);
  }

  // The domain is the anchor's. The root has the same number of elements, or half of the columns.
  Point domain_of_anchor(ValueId value, bool itself) {
    const Dims& dims = g_.type(value).dims;
    out_.gated = s_.may_be_gated(anchor_, dims);
    domain_ = out_.gated ? dims : g_.type(anchor_).dims;
    const std::optional<Point> at = domain_ == dims ? identity(dims) : point_over_anchor(s_, value, anchor_, itself);
    if (!at) return no_domain(with_own_epilogue(anchor_));
    out_.body.outer.assign(domain_.begin(), domain_.end() - 1);
    out_.body.row = {domain_.back()};
    out_.anchor = anchor_;
    out_.label = g_.producer(anchor_).op == Op::matmul ? "matmul" : "depthwise_conv";
    return *at;
  }

  // The domain has the reduction's kept axes, then its reduced ones.
  Point domain_of_reduction(ValueId value, const Node& reduction) {
    const Dims &dims = g_.type(value).dims, &full = g_.type(reduction.in[0]).dims, &kept = g_.type(reduction.out[0]).dims;
    std::vector<bool> reduced(full.size(), false);
    std::vector<int64_t> axes = reduction.attributes.integers("axes");
    for (size_t d = 0; d < full.size(); ++d) reduced[d] = axes.empty() || std::count(axes.begin(), axes.end(), static_cast<int64_t>(d)) != 0;
    // The result of a reduction may gain or lose axes of size 1: a pooled image is [N, C, 1, 1].
    const bool of_result = dims == kept, of_operand = !of_result && dims == full, of_view = !of_result && !of_operand && without_units(dims) == without_units(kept);
    if (!of_result && !of_operand && !of_view) {
      if (reduction.out[0] == value) fail(Code::internal, "a reduction does not have its own shape");
      if (!has_rows(dims, full, reduced)) return no_domain(reduction.out[0]);
      // The outer axes are in another order, as for windows of a normalised image.
      const auto rows = static_cast<int64_t>(std::count(reduced.begin(), reduced.end(), true));
      domain_ = dims;
      out_.body.outer.assign(dims.begin(), dims.end() - rows);
      out_.body.row.assign(dims.end() - rows, dims.end());
      return identity(dims);
    }
    std::vector<uint32_t> position(full.size());
    for (size_t d = 0; d < full.size(); ++d) {
      if (reduced[d]) continue;
      position[d] = static_cast<uint32_t>(out_.body.outer.size());
      out_.body.outer.push_back(full[d]);
    }
    for (size_t d = 0; d < full.size(); ++d) {
      if (!reduced[d]) continue;
      position[d] = static_cast<uint32_t>(out_.body.outer.size() + out_.body.row.size());
      out_.body.row.push_back(full[d]);
    }
    if (out_.body.row.empty()) out_.body.row = {Dim(1)};  // a reduction over no axes of a 0-d value
    domain_ = out_.body.outer;
    domain_.insert(domain_.end(), out_.body.row.begin(), out_.body.row.end());
    uniform_store_ = !of_operand;
    Point at(dims.size());
    const bool keep = reduction.attributes.boolean("keep");
    size_t k = 0;  // the axis of `value`
    for (size_t d = 0; d < full.size(); ++d) {
      if (of_view) {
        if (reduced[d] || full[d] == Dim(1)) continue;
        while (dims[k] == Dim(1)) ++k;
      } else if (of_result && reduced[d]) {
        if (keep) ++k;
        continue;
      }
      at[k++].terms[position[d]] = 1;
    }
    return at;
  }

  // ---- pulling

  Reg value(ValueId v, const Point& at) {
    if (missing_ != none_id) return 0;
    for (const auto& [key, reg] : memo_) {
      if (key.first == v && key.second == at) return reg;
    }
    Reg r = pull(v, at);
    memo_.push_back({{v, at}, r});
    return r;
  }

  Reg pull(ValueId v, const Point& at) {
    if (auto place = s_.resolve(v)) return load(*place, at);
    return compute(v, at);
  }

  // The point of an operand that broadcasts to the result's shape.
  Point broadcast_point(ValueId operand, const Point& at) {
    const Dims& dims = g_.type(operand).dims;
    Point out(dims.size());
    size_t lead = at.size() - dims.size();
    for (size_t d = 0; d < dims.size(); ++d) {
      if (!(dims[d] == Dim(1))) out[d] = at[lead + d];
    }
    return out;
  }

  Reg compute(ValueId v, const Point& at) {
    if (v == anchor_) {
      const Dims& dims = g_.type(v).dims;
      Point itself = identity(dims);
      const bool second = out_.gated && at.back().offset == domain_.back();
      if (second) itself.back().offset = domain_.back();
      for (size_t d = 0; d < dims.size(); ++d) {
        if (!(at[d] == itself[d]) && !(dims[d] == Dim(1))) return missing(v);
      }
      return scaled_sum(v, accumulator(compute_type(g_.type(v).dtype), second), at);
    }
    const Node& node = g_.producer(v);
    const Attributes& a = node.attributes;
    if (node.op == Op::bitcast) return bits(node, at);
    if (is_map(node.op)) {
      std::vector<Reg> in;
      for (ValueId o : node.in) in.push_back(value(o, broadcast_point(o, at)));
      DType t = g_.type(v).dtype;
      label(node.op);
      // Casts of the user round half values; other half arithmetic stays in float32.
      if (node.op == Op::cast) {
        if (is_float(g_.type(node.in[0]).dtype) && t == DType::f32 && compute_type(g_.type(node.in[0]).dtype) == DType::f32) return in[0];
        return map(Op::cast, t, std::move(in));
      }
      return map(node.op, compute_type(t), std::move(in));
    }
    switch (node.op) {
      case Op::literal: return number(a.scalar("value"), compute_type(a.dtype("dtype")));
      case Op::size: return size(a.dim("dim"));
      case Op::index: return coordinate(at[static_cast<size_t>(a.integer("axis"))]);
      case Op::view: return pull_view(v, node, at);
      case Op::reshape: return pull_reshape(node, at);
      case Op::reduce: return pull_reduce(v, node, at);
      case Op::gather: return pull_gather(node, at);
      case Op::take_along: return pull_take_along(node, at);
      default: return missing(s_.is_anchor(v) ? with_own_epilogue(v) : v);
    }
  }

  // What is stored is read as the other type, so that all bits stay, also those of a NaN.
  Reg bits(const Node& node, const Point& at) {
    const DType from = g_.type(node.in[0]).dtype, to = g_.type(node.out[0]).dtype;
    if (auto place = s_.resolve(node.in[0]); place && place->dtype == from) {
      place->dtype = to;
      return load(*place, at);
    }
    Reg in = value(node.in[0], at);
    if (compute_type(from) != from) in = map(Op::cast, from, {in});
    label(node.op);
    return map(Op::bitcast, to, {in});
  }

  // Another kernel's result with the pointwise work on it and constants, like its bias: that kernel's epilogue computes it at no cost.
  ValueId with_own_epilogue(ValueId v) const {
    const Context& c = *s_.context;
    for (;;) {
      if (c.uses[v] != 1 || c.users[v].size() != 1) return v;
      const Node& user = g_.nodes[c.users[v][0]];
      if (!is_map(user.op) || s_.stored[user.out[0]]) return v;
      const Type &before = g_.type(v), &after = g_.type(user.out[0]);
      if (before.dims != after.dims || size_of(after.dtype) > size_of(before.dtype)) return v;
      const bool constants = std::all_of(user.in.begin(), user.in.end(), [&](ValueId in) { return in == v || ir::is_leaf(g_.producer(s_.base_of(in)).op); });
      if (!constants) return v;
      v = user.out[0];
    }
  }

  Reg accumulator(DType type, bool second) {
    for (size_t k = 0; k < out_.body.code.size(); ++k) {
      const Instruction& c = out_.body.code[k];
      if (c.kind == Instruction::Kind::accumulator && c.half == static_cast<uint32_t>(second)) return static_cast<Reg>(k);
    }
    Instruction i{};
    i.kind = Instruction::Kind::accumulator;
    i.half = second;
    i.dtype = type;
    return push(std::move(i));
  }

  // The sum of a GEMM whose B is encoded, times the scale of its column.
  Reg scaled_sum(ValueId v, Reg sum, const Point& at) {
    const EncodedB* b = s_.encoded(g_.producer(v));
    if (b == nullptr || b->scale == none_id) return sum;
    return map(Op::mul, DType::f32, {sum, value(b->scale, broadcast_point(b->scale, at))});
  }

  static Point through(const AffineMap& map, const Point& at) {
    Point out(map.axes.size());
    for (size_t j = 0; j < map.axes.size(); ++j) {
      out[j].offset = map.axes[j].offset;
      for (const AffineMap::Term& t : map.axes[j].terms) add(out[j], scaled(at[t.axis], Dim(t.coefficient)));
    }
    return out;
  }

  Reg pull_view(ValueId v, const Node& node, const Point& at) {
    const AffineMap& map = node.attributes.map("map");
    Point inner = through(map, at);
    if (!map.fill) return value(node.in[0], inner);
    pad_value_ = v;
    label_text("pad");
    auto place = s_.require(node.in[0]);
    if (!place) return missing(place.missing().value);
    return guarded(*place, inner, *map.fill);
  }

  Reg pull_reshape(const Node& node, const Point& at) {
    const Dims &from = g_.type(node.in[0]).dims, &to = g_.type(node.out[0]).dims;
    // A reshape of a value in memory is read through that value's layout, even if the reshape has memory of its own.
    if (auto place = s_.resolve(node.in[0])) {
      if (auto window = through_reshape(place->layout, to)) {
        place->layout = std::move(*window);
        return load(*place, at);
      }
    }
    Point inner(from.size());
    for (const ReshapeGroup& group : reshape_groups(from, to)) {
      // Merged axes have an affine index only if the domain has the same axes.
      if (group.from.size() > 1) {
        Dims sizes;
        for (size_t d : group.from) sizes.push_back(from[d]);
        const auto parts = group.to.size() == 1 ? split_coordinate(at[group.to[0]], sizes, domain_) : std::nullopt;
        if (!parts) return missing(base(node.in[0]));
        for (size_t k = 0; k < sizes.size(); ++k) inner[group.from[k]] = (*parts)[k];
        continue;
      }
      Dim stride = 1;
      for (size_t k = group.to.size(); k-- > 0 && !group.from.empty();) {
        add(inner[group.from[0]], scaled(at[group.to[k]], stride));
        stride *= to[group.to[k]];
      }
    }
    return value(node.in[0], inner);
  }

  // The value to store so that this chain of views becomes a layout.
  ValueId base(ValueId v) const {
    const Node& node = g_.producer(v);
    if ((node.op == Op::view && !node.attributes.map("map").fill) || node.op == Op::reshape) {
      ValueId b = base(node.in[0]);
      // If it is stored and still has no layout, the view itself must be copied.
      return s_.stored[b] ? v : b;
    }
    return v;
  }

  Reg pull_reduce(ValueId v, const Node& node, const Point& at) {
    const Dims& full = g_.type(node.in[0]).dims;
    std::vector<int64_t> axes = node.attributes.integers("axes");
    bool keep = node.attributes.boolean("keep");
    auto outer = static_cast<uint32_t>(out_.body.outer.size());
    for (const Coordinate& c : at) {
      for (const auto& [axis, coefficient] : c.terms) {
        if (axis >= outer) return missing(v);
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
      if (row == out_.body.row.size() || !(out_.body.row[row] == full[d])) return missing(v);
      inner[d].terms[outer + static_cast<uint32_t>(row++)] = 1;
    }
    if (row != out_.body.row.size() && !(full.empty() && out_.body.row == Dims{1})) return missing(v);  // a row of one element is the whole of a scalar
    Instruction i{};
    i.kind = Instruction::Kind::reduce;
    i.reduction = reduction_of(node.attributes.string("kind"));
    i.dtype = compute_type(g_.type(v).dtype);
    i.in = {value(node.in[0], inner)};
    label_text(node.attributes.string("kind"));
    Reg r = push(std::move(i));
    if (missing_ == none_id && stages_of(r) > 3) return missing(s_.stored[v] ? last_stage_ : v);  // keep this body's last stage and store what it reads
    last_stage_ = v;
    return r;
  }

  // What lies before the axis stays as it is, so that the error names the index that was given.
  Reg wrapped(Reg index, const Dim& extent) {
    const Reg zero = number(int64_t{0}, DType::i64), from_end = map(Op::add, DType::i64, {index, size(extent)});
    const Reg inside = map(Op::select, DType::i64, {map(Op::lt, DType::b8, {from_end, zero}), index, from_end});
    return map(Op::select, DType::i64, {map(Op::lt, DType::b8, {index, zero}), inside, index});
  }

  Reg pull_gather(const Node& node, const Point& at) {
    const Dims& table = g_.type(node.in[0]).dims;
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
      Reg r = value(index, broadcast_point(index, index_point));
      registers.push_back({d, wrap ? wrapped(r, table[d]) : r});
    }
    auto table_place = s_.require(node.in[0]);
    if (!table_place) return missing(table_place.missing().value);
    return gathered(*table_place, registers, table_point);
  }

  Reg pull_take_along(const Node& node, const Point& at) {
    auto axis = static_cast<size_t>(node.attributes.integer("axis"));
    Reg r = value(node.in[1], at);
    Point point = at;
    point[axis] = {};
    auto place = s_.require(node.in[0]);
    if (!place) return missing(place.missing().value);
    return gathered(*place, {{axis, r}}, point);
  }

  const StoragePlan& s_;
  const Graph& g_;

  ValueId anchor_ = none_id;
  bool uniform_store_ = false;
  ValueId last_stage_ = none_id;  // the last reduction pulled
  std::vector<std::pair<std::pair<ValueId, Point>, Reg>> memo_;
};

}  // namespace

Outcome<WrittenBody> write_root(const StoragePlan& s, ValueId value, const BufferView& target, bool itself) { return Writer(s).write(value, target, itself); }

Outcome<WrittenBody> write_prologue(const StoragePlan& s, ValueId a) {
  const Type& t = s.graph().type(a);
  auto written = Writer(s).write(a, {UINT32_MAX, t.dtype, row_major(t.dims)}, false);
  if (!written) return written;
  const Dims& outer = written->body.outer;
  if (written->anchor != none_id || std::any_of(outer.begin(), outer.end(), [](const Dim& d) { return !(d == Dim(1)); })) return Missing{s.base_of(a)};
  return written;
}

Outcome<WrittenBody> write_mask(const StoragePlan& s, ValueId mask, const Dims& scores, DType score) { return Writer(s).write_mask(mask, scores, score); }

}  // namespace ingot::compile
