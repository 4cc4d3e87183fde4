#include "lower/branches.h"

#include <algorithm>

#include "ir/reshape_groups.h"
#include "lower/tuning.h"

namespace ingot::lower {

using ir::AffineMap;

bool has_unit_step(const AffineMap::Axis& axis) { return axis.terms.size() == 1 && axis.terms[0].coefficient == 1 && axis.offset == Dim(0); }

std::set<uint32_t> axes_of(const AffineMap& map) {
  std::set<uint32_t> axes;
  for (const AffineMap::Axis& axis : map.axes) {
    for (const AffineMap::Term& t : axis.terms) axes.insert(t.axis);
  }
  return axes;
}

namespace {

// Terms along axes of size 1 say nothing.
AffineMap without_ones(AffineMap map) {
  for (AffineMap::Axis& axis : map.axes) std::erase_if(axis.terms, [&](const AffineMap::Term& t) { return map.dims[t.axis] == Dim(1); });
  return map;
}

// A map to the last axes of an operand that broadcasts to these.
AffineMap broadcast_from(const AffineMap& map, const Dims& operand) {
  AffineMap to{map.dims, std::vector<AffineMap::Axis>(operand.size()), std::nullopt};
  for (size_t i = 0; i < operand.size(); ++i) {
    const AffineMap::Axis& axis = map.axes[map.axes.size() - operand.size() + i];
    if (!(operand[i] == Dim(1)) || (has_unit_step(axis) && map.dims[axis.terms[0].axis] == Dim(1))) to.axes[i] = axis;
  }
  return to;
}

Place broadcast_from(const Place& place, const Dims& operand) {
  return {broadcast_from(place.fine, operand), place.whole ? std::optional(broadcast_from(*place.whole, operand)) : std::nullopt};
}

Factor factor_of(const Graph& g, ValueId v, const Place& place) {
  Place to = broadcast_from(place, g.type(v).dims);
  to.fine = without_ones(std::move(to.fine));
  if (to.whole) to.whole = without_ones(std::move(*to.whole));
  return {v, std::move(to)};
}

// True for a view that permutes axes and adds or drops such of size 1, which `map` leaves alone.
bool has_same_bounds(const AffineMap& map, const AffineMap& view, const Dims& operand) {
  std::vector<bool> seen(view.dims.size(), false);
  for (size_t i = 0; i < operand.size(); ++i) {
    if (operand[i] == Dim(1)) continue;
    if (!has_unit_step(view.axes[i]) || !(view.dims[view.axes[i].terms[0].axis] == operand[i])) return false;
    seen[view.axes[i].terms[0].axis] = true;
  }
  for (size_t d = 0; d < seen.size(); ++d) {
    if (!seen[d] && !(view.dims[d] == Dim(1) && map.axes[d].terms.empty() && map.axes[d].offset == Dim(0))) return false;
  }
  return true;
}

// True if a value is made of integers: a quantised weight, which stays as it is.
bool is_quantised(const Graph& g, ValueId v) {
  std::set<ValueId> seen;
  for (std::vector<ValueId> todo{v}; !todo.empty();) {
    v = todo.back();
    todo.pop_back();
    if (!seen.insert(v).second) continue;
    if (!ir::is_float(g.type(v).dtype)) return true;
    todo.insert(todo.end(), maker(g, v).in.begin(), maker(g, v).in.end());
  }
  return false;
}

}  // namespace

bool Branches::find(const Node& sum) {
  const bool found = find_in(sum, g_.type(sum.out[0]).dims);
  if (!finer_) return found;
  return find_in(sum, Dims(*finer_)) || find_in(sum, g_.type(sum.out[0]).dims);
}

bool Branches::find_in(const Node& sum, const Dims& in) {
  const Dims& dims = g_.type(sum.out[0]).dims;
  branches.clear();
  constants.clear();
  axes_ = in;
  return operands(sum, {*ir::split_map(dims, axes_), *ir::split_map(dims, dims)}, false, {}, 0);
}

bool Branches::operands(const Node& sum, const Place& place, bool negative, const std::vector<Factor>& factors, int depth) {
  for (size_t i = 0; i < 2; ++i) {
    const bool minus = i == 1 && sum.op == Op::sub;
    if (!visit(sum.in[i], broadcast_from(place, g_.type(sum.in[i]).dims), negative != minus, factors, depth + 1)) return false;
  }
  return true;
}

bool Branches::visit(ValueId v, const Place& place, bool negative, std::vector<Factor> factors, int depth) {
  if (weights_.contain(g_, v)) {
    if (!place.whole) return false;
    factors.push_back(factor_of(g_, v, place));
    constants.push_back({negative, std::move(factors)});
    return true;
  }
  if (branches.size() == tuning::max_branches || depth > tuning::max_branch_steps) return false;
  const Node& n = maker(g_, v);
  if (uses_[v] == 1) {
    if (n.op == Op::add || n.op == Op::sub) return operands(n, place, negative, factors, depth);
    if (auto below = after_view(n, place)) return visit(n.in[0], *below, negative, std::move(factors), depth + 1);
    for (size_t i = 0; n.op == Op::mul && i < 2; ++i) {
      if (!weights_.contain(g_, n.in[1 - i])) continue;
      factors.push_back(factor_of(g_, n.in[1 - i], place));
      return visit(n.in[i], broadcast_from(place, g_.type(n.in[i]).dims), negative, std::move(factors), depth + 1);
    }
  }
  Branch b(negative, std::move(factors), v, place);
  if (uses_[v] == 1 && (n.op == Op::matmul || n.op == Op::reduce)) {
    Branch convolution = b;
    if (n.op == Op::matmul ? product(convolution, n) : windows(convolution, n)) {
      branches.push_back(std::move(convolution));
      return true;
    }
  }
  // Numbers after the reshape that merges have no axes of the sum.
  if (std::any_of(b.factors.begin(), b.factors.end(), [](const Factor& f) { return !f.place.whole; })) return false;
  read(b, v, place.fine);
  branches.push_back(std::move(b));
  return true;
}

std::optional<Place> Branches::after_view(const Node& n, const Place& place) {
  if (n.op == Op::view && !n.attributes.map("map").fill) {
    const AffineMap& map = n.attributes.map("map");
    return Place{compose(place.fine, map), place.whole ? std::optional(compose(*place.whole, map)) : std::nullopt};
  }
  if (n.op != Op::reshape) return std::nullopt;
  const Dims &from = g_.type(n.in[0]).dims, &to = g_.type(n.out[0]).dims;
  auto fine = ir::before_merge(place.fine, from, to);
  if (!fine) {
    split_axes(place.fine, from, to);
    return std::nullopt;
  }
  return Place{std::move(*fine), place.whole ? ir::before_merge(*place.whole, from, to) : std::nullopt};
}

void Branches::split_axes(const AffineMap& map, const Dims& from, const Dims& to) {
  const auto merged = ir::merged_axes(from, to);
  for (size_t m = 0; merged && !finer_ && m < map.axes.size(); ++m) {
    const AffineMap::Axis& axis = map.axes[m];
    if ((*merged)[m].size() < 2 || !has_unit_step(axis) || axis.terms[0].axis >= axes_.size() || !(map.dims[axis.terms[0].axis] == to[m])) continue;
    finer_ = axes_;
    auto at = finer_->erase(finer_->begin() + axis.terms[0].axis);
    for (size_t part = (*merged)[m].size(); part-- > 0;) at = finer_->insert(at, from[(*merged)[m][part]]);
    if (!ir::split_map(axes_, *finer_)) finer_.reset();
  }
}

bool Branches::windows(Branch& b, const Node& sum) {
  const Node& times = maker(g_, sum.in[0]);
  if (times.op != Op::mul || sum.attributes.string("kind") != "sum" || sum.attributes.boolean("keep")) return false;
  const size_t i = weights_.contain(g_, times.in[0]) ? 0 : 1;
  const Dims& dims = g_.type(sum.in[0]).dims;
  if (!weights_.contain(g_, times.in[i]) || !(g_.type(times.in[1 - i]).dims == dims)) return false;
  const std::vector<int64_t> axes = sum.attributes.integers("axes");
  AffineMap map{b.place.fine.dims, std::vector<AffineMap::Axis>(dims.size()), std::nullopt};
  for (size_t d = 0, kept = 0; d < dims.size(); ++d) {
    if (axes.empty() || std::count(axes.begin(), axes.end(), static_cast<int64_t>(d)) != 0) {
      if (!dims[d].constant()) return false;
      map.axes[d].terms = {{static_cast<uint32_t>(map.dims.size()), 1}};
      map.dims.push_back(dims[d]);
      b.summed.push_back(dims[d]);
    } else {
      map.axes[d] = b.place.fine.axes[kept++];
    }
  }
  return kernel(b, times.in[i], map, g_.type(times.in[i]).dims) && read(b, times.in[1 - i], map);
}

bool Branches::product(Branch& b, const Node& node) {
  const ValueId a = node.in[0], w = node.in[1];
  if (!weights_.contain(g_, w)) return false;
  const Node& shaped = maker(g_, a);
  std::vector<size_t> inner{g_.type(a).dims.size() - 1};
  Dims parts = g_.type(a).dims;
  if (shaped.op == Op::reshape) {
    parts = g_.type(shaped.in[0]).dims;
    auto merged = ir::merged_axes(parts, g_.type(a).dims);
    if (!merged || merged->back().empty()) return false;
    inner = merged->back();
  }
  const AffineMap& place = b.place.fine;
  AffineMap map = broadcast_from(place, g_.type(a).dims);
  map.axes.back() = {};
  int64_t step = 1;
  for (size_t k = inner.size(); k-- > 0;) {
    auto size = parts[inner[k]].constant();
    if (!size) return false;
    map.axes.back().terms.insert(map.axes.back().terms.begin(), {static_cast<uint32_t>(map.dims.size() + k), step});
    step *= *size;
  }
  Dims form(g_.type(w).dims.begin(), g_.type(w).dims.end() - 2);
  AffineMap of{place.dims, {}, std::nullopt};
  for (size_t i = 0; i < form.size(); ++i) of.axes.push_back(place.axes[place.axes.size() - 2 - form.size() + i]);
  for (size_t axis : inner) {
    of.axes.push_back({0, {{static_cast<uint32_t>(of.dims.size()), 1}}});
    of.dims.push_back(parts[axis]);
    map.dims.push_back(parts[axis]);
    form.push_back(parts[axis]);
    b.summed.push_back(parts[axis]);
  }
  of.axes.push_back(place.axes.back());
  form.push_back(g_.type(w).dims.back());
  if (!kernel(b, w, of, form)) return false;
  if (shaped.op != Op::reshape) return read(b, a, map);
  auto before = ir::before_merge(map, parts, g_.type(a).dims);
  if (!before) split_axes(map, parts, g_.type(a).dims);
  return before && read(b, shaped.in[0], *before);
}

bool Branches::kernel(Branch& b, ValueId weight, const AffineMap& map, const Dims& sizes) {
  if (is_quantised(g_, weight)) return false;
  b.kernel = weight;
  b.form_dims = sizes;
  const AffineMap to = without_ones(broadcast_from(map, sizes));
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!(sizes[i] == Dim(1)) && !(has_unit_step(to.axes[i]) && map.dims[to.axes[i].terms[0].axis] == sizes[i])) return false;
    const int axis = sizes[i] == Dim(1) ? -1 : static_cast<int>(to.axes[i].terms[0].axis);
    if (axis >= 0 && std::find(b.form.begin(), b.form.end(), axis) != b.form.end()) return false;  // a diagonal
    b.form.push_back(axis);
  }
  // What the result is multiplied with goes to the weight.
  return std::all_of(b.factors.begin(), b.factors.end(), [&](const Factor& f) {
    const std::set<uint32_t> axes = axes_of(f.place.fine);
    return std::all_of(axes.begin(), axes.end(), [&](uint32_t axis) { return std::count(b.form.begin(), b.form.end(), static_cast<int>(axis)) == 1; });
  });
}

bool Branches::read(Branch& b, ValueId v, AffineMap map) {
  Reading r{v, without_ones(std::move(map))};
  for (;;) {
    b.readings.push_back(r);
    const Node& n = maker(g_, r.value);
    const bool behind = r.guard || r.beyond;
    if (n.op == Op::view) {
      AffineMap inner = n.attributes.map("map");
      if (inner.fill && (behind || inner.fill->to_double() != 0)) return true;
      r.guard = inner.fill || (r.guard && has_same_bounds(r.map, inner, g_.type(n.in[0]).dims));
      r.beyond = behind && !r.guard;
      inner.fill.reset();
      r.map = without_ones(compose(r.map, inner));
    } else if (n.op == Op::concat && n.in.size() == 1) {  // a copy
    } else if (n.op == Op::reshape) {
      const Dims &from = g_.type(n.in[0]).dims, &to = g_.type(r.value).dims;
      auto split = ir::split_map(from, to);
      auto before = split ? std::optional(compose(r.map, *split)) : ir::before_merge(r.map, from, to);
      if (!before) return true;
      r.map = std::move(*before);
      r.beyond = behind;
      r.guard = false;
    } else {
      return true;
    }
    r.value = n.in[0];
  }
}

}  // namespace ingot::lower
