// A view of a view is one view; a reshape of a reshape is one reshape; identities go; views of a literal's expansion meet
// the literal; exact casts cancel.
#include "ir/compose.h"
#include "lower/passes.h"
#include "lower/rewrite.h"

namespace ingot::lower {

using namespace ir;

namespace {

// Every value of the first type is exactly one of the second.
bool widens(DType from, DType to) {
  if (from == to) return true;
  if (from == DType::b8) return true;
  if (is_float(from)) return is_float(to) && size_of(to) > size_of(from);
  if (is_integer(from) && is_integer(to)) return from == DType::u8 ? to != DType::i8 : size_of(to) > size_of(from) && to != DType::u8;
  return is_integer(from) && is_float(to) && size_of(from) * 2 <= size_of(to) && size_of(to) >= 4;
}

// A reshape that only adds or drops axes of size 1 is a view.
std::optional<AffineMap> as_view(const Dims& from, const Dims& to) {
  AffineMap map;
  map.dims = to;
  size_t j = 0;
  for (const Dim& d : from) {
    if (d == Dim(1)) {
      map.axes.push_back({0, {}});
      continue;
    }
    while (j < to.size() && to[j] == Dim(1)) ++j;
    if (j == to.size() || !(to[j] == d)) return std::nullopt;
    map.axes.push_back({0, {{static_cast<uint32_t>(j++), 1}}});
  }
  for (; j < to.size(); ++j) {
    if (!(to[j] == Dim(1))) return std::nullopt;
  }
  return map;
}

bool rewrite(Rewriter& r, NodeId n) {
  const Node& node = r.from().nodes[n];
  Graph& g = r.to();
  auto result = [&](Handle h) {
    r.set(node.out[0], h.id());
    return true;
  };
  if (node.op != Op::view && node.op != Op::reshape && node.op != Op::cast) return false;
  Handle x(&g, r(node.in[0]));
  const Node inner = g.producer(x.id());
  if (node.op == Op::cast) {
    DType to = node.attributes.dtype("dtype");
    if (x.dtype() == to) return result(x);
    if (inner.op == Op::cast && widens(g.type(inner.in[0]).dtype, x.dtype())) return result(cast(Handle(&g, inner.in[0]), to));
    return false;
  }
  if (node.op == Op::reshape) {
    Dims to = node.attributes.dims("dims");
    if (inner.op == Op::reshape) x = Handle(&g, inner.in[0]);
    if (x.dims() == to) return result(x);
    if (auto map = as_view(x.dims(), to)) {
      const Node& under = g.producer(x.id());
      if (under.op == Op::view && !under.attributes.map("map").fill) {
        return result(view(Handle(&g, under.in[0]), compose(*map, under.attributes.map("map"))));
      }
      return result(view(x, std::move(*map)));
    }
    return result(Handle(&g, g.add(Op::reshape, {x.id()}, {{"dims", to_attribute(to)}}, {x.dtype(), to})));
  }
  const AffineMap& map = node.attributes.map("map");
  if (!map.fill && is_identity(map, x.dims())) return result(x);
  if (inner.op == Op::view && !inner.attributes.map("map").fill && !map.fill) {
    return result(view(Handle(&g, inner.in[0]), compose(map, inner.attributes.map("map"))));
  }
  return false;
}

}  // namespace

void compose_views(Graph& g) { g = Rewriter(g).run(rewrite); }

}  // namespace ingot::lower
