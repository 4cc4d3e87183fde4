// Branches that are linear in one value and are added up become one: x*a + x*b is x*(a + b). A convolution and a smaller one of equal stride, a batch normalisation of its input or the
// input itself is one convolution (the blocks of RepVGG, MobileOne and FastViT as they are trained). Prepare adds up the weights.
#include <algorithm>
#include <numeric>

#include "lower/branches.h"
#include "lower/passes.h"
#include "lower/tuning.h"

namespace ingot::lower {

namespace {

using ir::AffineMap;

// ---- which branch is a part of which

// Where the elements that a branch sums over stand among those of another.
struct Fit {
  std::vector<size_t> axis;  // for each summed axis of the small one; `none` for one of size 1
  std::vector<int64_t> first;  // for each summed axis of the large one
  std::vector<int64_t> count;
  std::optional<int> channel, column;  // of elements next to a product: its summed axis of channels, and the axis of the sum that is equal to it
};
constexpr size_t none = SIZE_MAX;

std::vector<int64_t> steps_along(const AffineMap& map, size_t axis) {
  std::vector<int64_t> steps;
  for (const AffineMap::Axis& a : map.axes) {
    auto t = std::find_if(a.terms.begin(), a.terms.end(), [&](const AffineMap::Term& term) { return term.axis == axis; });
    steps.push_back(t == a.terms.end() ? 0 : t->coefficient);
  }
  return steps;
}

bool are_zero(const std::vector<int64_t>& steps) {
  return std::all_of(steps.begin(), steps.end(), [](int64_t s) { return s == 0; });
}

// Matches the axes of two readings of one value.
std::optional<Fit> match_axes(const AffineMap& small, const AffineMap& large, size_t axes) {
  const size_t small_rank = small.dims.size() - axes, large_rank = large.dims.size() - axes;
  Fit fit{std::vector<size_t>(small_rank, none), std::vector<int64_t>(large_rank, 0), std::vector<int64_t>(large_rank, 1), std::nullopt, std::nullopt};
  std::vector<bool> taken(large_rank, false);
  auto take = [&](const std::vector<int64_t>& steps, const Dim& size) {
    for (size_t k = 0; k < large_rank; ++k) {
      if (taken[k] || steps != steps_along(large, axes + k) || known_less(large.dims[axes + k], size, {}) != ir::Truth::no) continue;
      taken[k] = true;
      return k;
    }
    return none;
  };
  for (size_t r = 0; r < axes; ++r) {
    const std::vector<int64_t> steps = steps_along(small, r), other = steps_along(large, r);
    if (steps == other) continue;
    if (!are_zero(other) || fit.column) return std::nullopt;
    const size_t k = take(steps, small.dims[r]);
    if (k == none || !(large.dims[axes + k] == small.dims[r])) return std::nullopt;
    fit.column = static_cast<int>(r);
    fit.channel = static_cast<int>(axes + k);
    fit.count[k] = small.dims[r].value();
  }
  for (size_t k = 0; k < small_rank; ++k) {
    if (small.dims[axes + k] == Dim(1)) continue;
    fit.axis[k] = take(steps_along(small, axes + k), small.dims[axes + k]);
    if (fit.axis[k] == none) return std::nullopt;
    fit.count[fit.axis[k]] = small.dims[axes + k].value();
  }
  return fit;
}

// The large map at the elements of the small one.
AffineMap part_of(const AffineMap& large, size_t axes, const Fit& fit) {
  AffineMap part = large;
  for (size_t k = 0; k < fit.first.size(); ++k) part.dims[axes + k] = fit.count[k];
  for (AffineMap::Axis& a : part.axes) {
    for (const AffineMap::Term& t : a.terms) {
      if (t.axis >= axes) a.offset += Dim(t.coefficient * fit.first[t.axis - axes]);
    }
  }
  return part;
}

// Tries the places of the small kernel in the large one.
bool find_place(const AffineMap& small, const AffineMap& large, size_t axes, Fit& fit) {
  std::vector<int64_t> room;
  int64_t places = 1;
  for (size_t k = 0; k < fit.first.size(); ++k) {
    room.push_back(large.dims[axes + k].value() - fit.count[k]);
    if (room.back() > 0 && (places *= room.back() + 1) > tuning::max_kernel_places) return false;
  }
  for (int64_t place = 0; place < places; ++place) {
    int64_t rest = place;
    for (size_t k = 0; k < room.size(); ++k) {
      fit.first[k] = rest % (room[k] + 1);
      rest /= room[k] + 1;
    }
    const AffineMap part = part_of(large, axes, fit);
    bool same = true;
    for (size_t a = 0; same && a < part.axes.size(); ++a) same = part.axes[a].offset == small.axes[a].offset;
    if (same) return true;
  }
  return false;
}

// True if every axis of the weights and each summed axis has its place in the large kernel.
bool has_axes(const Branch& small, const Branch& large, const Fit& fit) {
  const int axes = static_cast<int>(small.place.fine.dims.size());
  auto has = [&](int axis) { return std::count(large.form.begin(), large.form.end(), axis) == 1; };
  for (size_t k = 0; k < fit.first.size(); ++k) {
    if (!(large.summed[k] == Dim(1)) && !has(axes + static_cast<int>(k))) return false;
  }
  std::vector<int> needed;
  for (const Factor& f : small.factors) {
    for (uint32_t axis : axes_of(f.place.fine)) needed.push_back(static_cast<int>(axis));
  }
  if (small.is_convolution()) needed.insert(needed.end(), small.form.begin(), small.form.end());
  if (fit.column) needed.push_back(*fit.column);
  return !large.is_convolution() || std::all_of(needed.begin(), needed.end(), [&](int axis) { return axis < 0 || axis >= axes || has(axis); });
}

// Elements are multiplied with one weight for each channel. A table of numbers stays as it is.
bool is_worth_it(const Graph& g, const Branch& small, const Branch& large, const Fit& fit) {
  if (fit.column && (small.factors.empty() || !ir::is_convolution(maker(g, large.made)))) return false;
  if (large.is_convolution()) return true;
  auto has_weight = [&](const Branch& b) { return std::any_of(b.factors.begin(), b.factors.end(), [&](const Factor& f) { return !number_of(g, f.value); }); };
  if (!has_weight(small) || !has_weight(large)) return false;  // x - x is NaN where x is infinite, and a model may ask for that
  auto has_one_axis = [](const Factor& f) { return axes_of(f.place.fine).size() <= 1; };
  return std::all_of(small.factors.begin(), small.factors.end(), has_one_axis) && std::all_of(large.factors.begin(), large.factors.end(), has_one_axis);
}

std::optional<Fit> fit_of(const Graph& g, const Branch& small, const Branch& large) {
  const size_t axes = small.place.fine.dims.size();
  for (const Reading& r : small.readings) {
    for (const Reading& l : large.readings) {
      if (r.value != l.value || r.beyond || (r.guard && l.beyond)) continue;
      auto fit = match_axes(r.map, l.map, axes);
      if (!fit || !find_place(r.map, l.map, axes, *fit) || !has_axes(small, large, *fit) || !is_worth_it(g, small, large, *fit)) continue;
      if (!l.beyond) return fit;
      // The same element of what was padded.
      auto guard = std::find_if(large.readings.begin(), large.readings.end(), [](const Reading& o) { return o.guard; });
      if (stays_inside(g, g.type(guard->value).dims, part_of(guard->map, axes, *fit))) return fit;
    }
  }
  return std::nullopt;
}

// ---- the sum of what is left

// A branch and those that are parts of it.
struct Group {
  const Branch* branch;
  std::vector<std::pair<const Branch*, Fit>> parts;
};

class Sum {
 public:
  Sum(Graph& to, const Graph& from, const std::vector<ValueId>& renamed, const ir::Type& type)
      : to_(to), from_(from), renamed_(renamed), dims_(type.dims), type_(type.dtype), axes_(type.dims.size()) {
    std::iota(axes_.begin(), axes_.end(), 0);
  }

  Handle run(const std::vector<Group>& groups, const std::vector<Constant>& constants) {
    std::optional<Handle> bias = sum_of(constants), y;
    for (const Group& group : groups) {
      const Branch& b = *group.branch;
      const bool unchanged = b.factors.empty() && group.parts.empty();
      Handle one = b.is_convolution() && !unchanged ? convolution(group) : as_it_is(b.made);
      if (bias && b.is_convolution() && !(unchanged && b.negative) && is_row_of(*bias, one, b.place)) {  // its kernel adds it
        one = one + *bias;
        bias.reset();
      }
      one = b.place.whole ? ir::view(one, *b.place.whole) : ir::reshape(ir::view(one, b.place.fine), dims_);
      if (!unchanged && !b.is_convolution()) one = one * rounded(numbers(group));
      add(y, one, unchanged && b.negative);
    }
    if (bias) add(y, *bias, false);
    return *y;
  }

 private:
  Handle as_it_is(ValueId v) { return {&to_, renamed_[v]}; }

  static void add(std::optional<Handle>& y, const Handle& one, bool negative) {
    if (negative) {
      y = y ? *y - one : -one;
    } else {
      y = y ? *y + one : one;
    }
  }

  // True if a bias has a number for each element of a row of `one`, before and after the views of a branch. A view may be a part of the rows.
  bool is_row_of(const Handle& bias, const Handle& one, const Place& place) const {
    if (bias.rank() != 1 || !place.whole || !(one.dims().back() == dims_.back())) return false;
    const AffineMap::Axis& last = place.whole->axes.back();
    return has_unit_step(last) && last.terms[0].axis + 1 == dims_.size();
  }

  // Numbers that become one are added up in float64, and rounded once.
  Handle wide(ValueId v) { return ir::cast(as_it_is(v), ir::DType::f64); }
  Handle rounded(const Handle& v) { return ir::cast(v, type_); }

  // A weight in the axes of a kernel, which `form` names.
  Handle spread(const Handle& w, const AffineMap& map, const std::vector<int>& form) {
    AffineMap to{Dims(form.size(), Dim(1)), map.axes, std::nullopt};
    for (AffineMap::Axis& axis : to.axes) {
      for (AffineMap::Term& t : axis.terms) {
        const auto at = static_cast<uint32_t>(std::find(form.begin(), form.end(), static_cast<int>(t.axis)) - form.begin());
        to.dims[at] = map.dims[t.axis];
        t.axis = at;
      }
      std::sort(axis.terms.begin(), axis.terms.end(), [](const auto& x, const auto& y) { return x.axis < y.axis; });
    }
    return ir::view(w, std::move(to));
  }

  Handle spread(const Handle& w, const std::vector<int>& names, const std::vector<int>& form) {
    AffineMap map{Dims(static_cast<size_t>(std::max(0, *std::max_element(names.begin(), names.end()) + 1)), Dim(1)), std::vector<AffineMap::Axis>(names.size()), std::nullopt};
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] < 0) continue;
      map.axes[i].terms = {{static_cast<uint32_t>(names[i]), 1}};
      map.dims[static_cast<size_t>(names[i])] = w.dims()[i];
    }
    return spread(w, map, form);
  }

  std::optional<Handle> product_of(const std::vector<Factor>& factors, bool whole, const std::vector<int>& form) {
    std::optional<Handle> y;
    for (const Factor& f : factors) {
      const Handle one = spread(wide(f.value), whole ? *f.place.whole : f.place.fine, form);
      y = y ? *y * one : one;
    }
    return y;
  }

  // What a branch's elements are multiplied with, in the axes of a kernel that it is a part of. `names`: the axes of its own kernel there.
  Handle weight(const Branch& b, const std::vector<int>& names, const std::vector<int>& form) {
    std::optional<Handle> w = product_of(b.factors, false, form);
    if (b.is_convolution()) {
      const Handle own = spread(ir::reshape(wide(b.kernel), b.form_dims), names, form);
      w = w ? own * *w : own;
    }
    return signed_weight(b, w, form);
  }

  Handle signed_weight(const Branch& b, const std::optional<Handle>& w, const std::vector<int>& form) {
    if (!w) return ir::full(to_, Dims(form.size(), Dim(1)), b.negative ? -1.0 : 1.0, ir::DType::f64);
    return b.negative ? -*w : *w;
  }

  // What elements that are not summed are multiplied with, in the axes of the sum.
  Handle numbers(const Group& group) {
    auto of = [&](const Branch& b) { return signed_weight(b, product_of(b.factors, true, axes_), axes_); };
    Handle w = of(*group.branch);
    for (const auto& [part, fit] : group.parts) w = w + of(*part);
    return w;
  }

  // The weight of a part, with zeros around it.
  Handle padded(const Branch& part, const Branch& in, const Fit& fit) {
    const int axes = static_cast<int>(part.place.fine.dims.size());
    std::vector<int> names = part.form;
    for (int& name : names) {
      if (name >= axes) name = axes + static_cast<int>(fit.axis[static_cast<size_t>(name - axes)]);
    }
    Handle w = weight(part, names, in.form);
    if (fit.column) w = diagonal(w, in, fit);
    Dims before(in.form.size(), Dim(0)), after = before, sizes = w.dims();
    for (size_t i = 0; i < in.form.size(); ++i) {
      if (in.form[i] < axes) continue;
      const auto k = static_cast<size_t>(in.form[i] - axes);
      sizes[i] = fit.count[k];
      before[i] = fit.first[k];
      after[i] = in.summed[k] - Dim(fit.first[k] + fit.count[k]);
    }
    return ir::pad(ir::expand(w, sizes), before, after, 0.0);
  }

  // Elements next to a product: each channel goes to its own column.
  Handle diagonal(const Handle& w, const Branch& in, const Fit& fit) {
    auto at = [&](int axis) { return std::find(in.form.begin(), in.form.end(), axis) - in.form.begin(); };
    Dims square(in.form.size(), Dim(1));
    const ir::Axis row = at(*fit.channel), column = at(*fit.column);
    square[static_cast<size_t>(row)] = square[static_cast<size_t>(column)] = in.form_dims[static_cast<size_t>(column)];
    return ir::select(ir::equal(ir::index(to_, square, row), ir::index(to_, square, column)), w, ir::literal(to_, 0.0, ir::DType::f64));
  }

  Handle convolution(const Group& group) {
    const Branch& b = *group.branch;
    Handle w = weight(b, b.form, b.form);
    for (const auto& [part, fit] : group.parts) w = w + padded(*part, b, fit);
    w = ir::reshape(rounded(w), Dims(from_.type(b.kernel).dims));
    const Node& made = maker(from_, b.made);
    if (made.op == Op::matmul) return ir::matmul(as_it_is(made.in[0]), w, made.attributes);
    const Node& times = maker(from_, made.in[0]);
    const std::vector<int64_t> axes = made.attributes.integers("axes");
    return ir::sum(as_it_is(times.in[0] == b.kernel ? times.in[1] : times.in[0]) * w, ir::Axes(axes.begin(), axes.end()));
  }

  std::optional<Handle> sum_of(const std::vector<Constant>& constants) {
    std::optional<Handle> y;
    for (const Constant& c : constants) {
      if (auto number = number_of(from_, c.factors.back().value); number && !std::holds_alternative<Dim>(number->value) && number->to_double() == 0) continue;
      add(y, *product_of(c.factors, true, axes_), c.negative);
    }
    if (!y) return y;
    const Dims& sizes = y->dims();
    const bool is_row = std::all_of(sizes.begin(), sizes.end() - 1, [](const Dim& d) { return d == Dim(1); });
    return rounded(is_row ? ir::reshape(*y, {sizes.back()}) : *y);
  }

  Graph& to_;
  const Graph& from_;
  const std::vector<ValueId>& renamed_;
  const Dims dims_;
  const ir::DType type_;
  std::vector<int> axes_;  // of the sum
};

int64_t volume(const Branch& b) {
  int64_t elements = 1;
  for (const Dim& d : b.summed) elements *= d.value();
  return elements;
}

// Each branch in the first that it is a part of, large ones first; in the order of the sum.
std::vector<Group> grouped(const Graph& g, const std::vector<Branch>& branches) {
  std::vector<const Branch*> order;
  for (const Branch& b : branches) order.push_back(&b);
  std::stable_sort(order.begin(), order.end(), [](const Branch* x, const Branch* y) { return volume(*x) > volume(*y); });
  std::vector<Group> groups;
  for (const Branch* b : order) {
    bool found = false;
    for (Group& group : groups) {
      auto fit = fit_of(g, *b, *group.branch);
      if (!fit) continue;
      group.parts.emplace_back(b, std::move(*fit));
      found = true;
      break;
    }
    if (!found) groups.push_back({b, {}});
  }
  std::sort(groups.begin(), groups.end(), [](const Group& x, const Group& y) { return x.branch < y.branch; });
  return groups;
}

}  // namespace

void merge_branches(Graph& g) {
  WeightValues weights(g, WeightValues::Through::maps);
  const std::vector<int> uses = use_counts(g);
  rewrite_named(g, [&](Graph& to, const Node& node, const std::vector<ValueId>&, const std::vector<ValueId>& renamed) -> std::optional<ValueId> {
    if (node.op != Op::add && node.op != Op::sub) return std::nullopt;
    const ir::Type& type = g.type(node.out[0]);
    // Half types would round the weights once more.
    if (!is_float(type.dtype) || size_of(type.dtype) < 4 || type.dims.empty() || weights.contain(g, node.out[0])) return std::nullopt;
    Branches sum(g, weights, uses);
    if (!sum.find(node) || sum.branches.size() < 2) return std::nullopt;
    const std::vector<Group> groups = grouped(g, sum.branches);
    if (groups.size() == sum.branches.size()) return std::nullopt;
    return Sum(to, g, renamed, type).run(groups, sum.constants).id();
  });
}

}  // namespace ingot::lower
