// The views of the builder language: affine maps and reshapes.
#include <algorithm>

#include "base/error.h"
#include "ir/compose_nodes.h"
#include "ir/symbols.h"

namespace ingot::ir {

Handle view(Handle x, AffineMap map) {
  if (is_identity(map, x.dims())) return x;
  return make_node(x.graph(), Op::view, {x.id()}, {{"map", std::move(map)}});
}

Handle reshape(Handle x, Dims dims) {
  Graph& g = x.graph();
  Dim known = 1;
  std::optional<size_t> open;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == Dim(-1)) {
      if (open) fail(Code::invalid_input, "reshape: only one size may be -1");
      open = i;
    } else {
      known *= dims[i];
    }
  }
  Dim total = x.numel();
  if (open) {
    if (known == Dim(0)) fail(Code::invalid_input, "reshape: -1 stands for any size if another size is 0");
    dims[*open] = floordiv(total, known);
    known *= dims[*open];
  }
  if (dims == x.dims()) return x;
  if (known_equal(known, total, g.symbols) == Truth::no) {
    fail(Code::invalid_input, "reshape: {} elements do not make a shape of {}", total.text(g.symbols), known.text(g.symbols));
  }
  require(g, known, Check::equal, total, "reshape keeps the number of elements");
  return make_node(g, Op::reshape, {x.id()}, {{"dims", to_attribute(dims)}});
}

Handle permute(Handle x, Axes order) {
  if (static_cast<int64_t>(order.size()) != x.rank()) fail(Code::invalid_input, "permute: {} axes for rank {}", order.size(), x.rank());
  std::vector<bool> seen(order.size(), false);
  for (Axis& a : order) {
    a = x.axis(a);
    if (seen[static_cast<size_t>(a)]) fail(Code::invalid_input, "permute: axis {} appears twice", a);
    seen[static_cast<size_t>(a)] = true;
  }
  return view(x, permute_map(x.dims(), order));
}

Handle transpose(Handle x, Axis a, Axis b) {
  a = x.axis(a);
  b = x.axis(b);
  if (x.rank() == 0 || a == b) return x;
  Axes order;
  for (Axis i = 0; i < x.rank(); ++i) order.push_back(i == a ? b : i == b ? a : i);
  return permute(x, order);
}

Handle expand(Handle x, Dims dims) {
  if (static_cast<int64_t>(dims.size()) < x.rank()) fail(Code::invalid_input, "expand: {} sizes for rank {}", dims.size(), x.rank());
  Graph& g = x.graph();
  size_t lead = dims.size() - x.dims().size();
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i < lead) {
      if (dims[i] == Dim(-1)) fail(Code::invalid_input, "expand: -1 for the new leading axis {}", i);
      continue;
    }
    const Dim& from = x.dims()[i - lead];
    if (dims[i] == Dim(-1)) dims[i] = from;
    if (from == Dim(1) || from == dims[i]) continue;
    if (known_equal(from, dims[i], g.symbols) == Truth::no) {
      fail(Code::invalid_input, "expand: axis {} has size {}, which cannot become {}", i, from.text(g.symbols), dims[i].text(g.symbols));
    }
    require(g, from, Check::equal, dims[i], "expand keeps sizes other than 1");
  }
  AffineMap map = expand_map(x.dims(), dims);
  return view(x, std::move(map));
}

Handle unsqueeze(Handle x, Axis axis) {
  int64_t r = x.rank() + 1;
  if (axis < -r || axis >= r) fail(Code::invalid_input, "unsqueeze: axis {} is outside rank {}", axis, r);
  if (axis < 0) axis += r;
  AffineMap map;
  for (int64_t i = 0; i < x.rank(); ++i) map.axes.push_back({0, {{static_cast<uint32_t>(i < axis ? i : i + 1), 1}}});
  map.dims = x.dims();
  map.dims.insert(map.dims.begin() + axis, Dim(1));
  return view(x, std::move(map));
}

Handle squeeze(Handle x, Axis axis) {
  axis = x.axis(axis);
  if (x.rank() == 0) return x;
  if (x.dim(axis) == Dim(1)) return view(x, select_map(x.dims(), axis, 0));
  const auto [less, more] = unequal(x.dim(axis), Dim(1), x.graph().symbols);
  require(x.graph(), less, Check::less_equal, more, "the squeezed axis has other than 1 element, as when it was captured");  // else the result has one axis less
  return x;
}

Dim from_front(const Dim& place, const Dim& size, std::span<const Symbol> symbols) {
  const Range r = place.range(symbols);
  if (r.min >= 0) return place;
  return r.max < 0 ? place + size : place + size * min(max(-place, 0), 1);
}

Handle slice(Handle x, Axis axis, std::optional<Dim> start, std::optional<Dim> end, int64_t step) {
  if (x.rank() == 0) fail(Code::invalid_input, "slice: a 0-d tensor has no axes");
  if (step <= 0) fail(Code::invalid_input, "slice: step {} is not positive", step);
  axis = x.axis(axis);
  Dim size = x.dim(axis);
  const Graph& g = x.graph();
  // Python's rules: negative counts from the end, then clamped to 0..size.
  auto clamped = [&](const Dim& d) -> Dim {
    if (auto c = d.constant(); c && *c == INT64_MAX) return size;
    Dim v = from_front(d, size, g.symbols);
    if (v == size) return size;
    if (known_less(v, 0, g.symbols) != Truth::no) v = max(v, 0);
    if (known_less(size, v, g.symbols) != Truth::no) v = min(v, size);
    return v;
  };
  Dim from = start ? clamped(*start) : Dim(0), to = end ? clamped(*end) : size;
  // size - min(start, size) is max(size - start, 0), which says more.
  Dim first = start && to == size && known_less(*start, 0, g.symbols) == Truth::no ? *start : from;
  Dim length = to - first;
  if (known_less(length, 0, g.symbols) != Truth::no) length = max(length, 0);
  if (step != 1) length = ceildiv(length, step);
  return view(x, slice_map(x.dims(), axis, from, length, step));
}

Handle take(Handle x, Axis axis, Dim at) {
  if (x.rank() == 0) fail(Code::invalid_input, "select: a 0-d tensor has no axes");
  axis = x.axis(axis);
  const Graph& g = x.graph();
  Dim size = x.dim(axis);
  at = from_front(at, size, g.symbols);
  if (known_less(at, size, g.symbols) == Truth::no || at.range(g.symbols).max < 0) {
    fail(Code::invalid_input, "select: index {} is outside an axis of size {}", at.text(g.symbols), size.text(g.symbols));
  }
  require(x.graph(), at + Dim(1), Check::less_equal, size, "the selected index exists");
  require(x.graph(), 0, Check::less_equal, at, "the selected index exists");
  return view(x, select_map(x.dims(), axis, std::move(at)));
}

Handle pad(Handle x, const Dims& before, const Dims& after, Scalar fill) {
  AffineMap map;
  for (size_t i = 0; i < x.dims().size(); ++i) {
    if (before.size() != x.dims().size() || after.size() != x.dims().size()) fail(Code::invalid_input, "pad: {} and {} amounts for rank {}", before.size(), after.size(), x.rank());
    map.dims.push_back(x.dims()[i] + before[i] + after[i]);
    map.axes.push_back({-before[i], {{static_cast<uint32_t>(i), 1}}});
    Truth negative = known_less(map.dims.back(), 0, x.graph().symbols);
    if (negative == Truth::yes) fail(Code::invalid_input, "pad: axis {} would get a negative size", i);
  }
  map.fill = converted(fill, x.dtype());
  return make_node(x.graph(), Op::view, {x.id()}, {{"map", std::move(map)}});
}

Handle flip(Handle x, Axes axes) {
  AffineMap map = permute_map(x.dims(), [&] {
    Axes order;
    for (Axis i = 0; i < x.rank(); ++i) order.push_back(i);
    return order;
  }());
  for (Axis a : axes) {
    if (x.rank() == 0) break;
    auto i = static_cast<size_t>(x.axis(a));
    map.axes[i].offset = x.dims()[i] - Dim(1);
    map.axes[i].terms[0].coefficient = -1;
  }
  return view(x, std::move(map));
}

Handle flatten(Handle x, Axis first, Axis last) {
  if (x.rank() == 0) return reshape(x, {Dim(1)});
  first = x.axis(first);
  last = x.axis(last);
  if (first > last) fail(Code::invalid_input, "flatten: the first axis {} comes after the last {}", first, last);
  Dims dims;
  Dim merged = 1;
  for (Axis i = 0; i < x.rank(); ++i) {
    if (i < first || i > last) {
      dims.push_back(x.dim(i));
    } else {
      merged *= x.dim(i);
      if (i == last) dims.push_back(merged);
    }
  }
  return reshape(x, std::move(dims));
}

Handle update(Handle base, AffineMap map, Handle value) {
  value = cast(value, base.dtype());
  if (map.dims.size() == value.dims().size()) {
    for (size_t i = 0; i < map.dims.size(); ++i) require(base.graph(), map.dims[i], Check::equal, value.dims()[i], "an update writes as many elements as it is given");
  }
  return make_node(base.graph(), Op::update, {base.id(), value.id()}, {{"map", std::move(map)}});
}

}  // namespace ingot::ir
