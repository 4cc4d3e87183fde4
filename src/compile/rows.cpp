// The left operand of a product where it lies: also windows of a stored value and the zeros around it (a convolution's), which the product
// reads through a map instead of a copy of them all.
#include "compile/function.h"

#include <algorithm>

#include "compile/columns.h"
#include "ir/reshape_groups.h"

namespace ingot::compile {

using namespace ir;

namespace {

bool pads_with_zeros(const Node& node) {
  if (node.op != Op::view) return false;
  const auto& fill = node.attributes.map("map").fill;
  return fill && !fill->is_bool() && fill->to_double() == 0;
}

}  // namespace

// What must be stored for a product to read rows from.
ValueId FunctionCompiler::rows_base(ValueId v) const {
  ValueId base = base_of(v);
  if (storage_.stored[base] || !pads_with_zeros(g_.producer(base))) return base;
  return base_of(g_.producer(base).in[0]);
}

// Whether the left operand may be one row that the product's step makes itself. It is made anew by every block of a kernel, so what is stored is left there.
bool FunctionCompiler::makes_row(const Node& product) const {
  const ValueId left = product.in[0], base = base_of(left);
  const Type& t = g_.type(left);
  return is_one_row(g_.type(product.out[0]).dims) && output_derived_.empty() && !storage_.stored[base] && is_inlined(g_.producer(base)) &&
         emitter_.makes_rows(t.dtype, t.dims.back());
}

std::optional<ValueId> FunctionCompiler::apart(const Node& product) const {
  const Node& turned = g_.producer(product.in[1]);
  return turned.op == Op::view && is_unmade(turned.in[0]) ? std::optional(turned.in[0]) : std::nullopt;
}

bool FunctionCompiler::meets_halves(ValueId product, const Dims& dims) const {
  const Node& node = g_.producer(product);
  const Dims& whole = g_.type(product).dims;
  return node.op == Op::matmul && is_one_row(whole) && is_one_row(dims) && dims.size() == whole.size() && whole.back() == dims.back() * Dim(2) && output_derived_.empty() &&
         emitter_.takes_halves(g_.type(node.in[0]).dtype, dims.back());
}

// Through views, at most one of which pads, to what is stored.
std::optional<Followed> FunctionCompiler::follow(ValueId v) const {
  const Dims& dims = g_.type(v).dims;
  AffineMap map{dims, {}, std::nullopt};
  for (uint32_t i = 0; i < dims.size(); ++i) map.axes.push_back({0, {{i, 1}}});
  for (ValueId at = v;;) {
    if (auto place = resolve(at)) return Followed{std::move(*place), std::move(map)};
    const Node& node = g_.producer(at);
    if (storage_.stored[at] || node.op != Op::view) return std::nullopt;
    AffineMap inner = node.attributes.map("map");
    const bool pads = inner.fill.has_value();
    inner.fill.reset();
    map = compose(map, inner);
    at = node.in[0];
    if (!pads) continue;
    auto place = pads_with_zeros(node) ? resolve(at) : std::nullopt;
    return place ? std::optional(Followed{std::move(*place), std::move(map)}) : std::nullopt;
  }
}

Rows FunctionCompiler::rows_of(ValueId v, const Dims& batch) const {
  if (auto place = resolve(v)) return {with_batch(std::move(*place), batch), std::nullopt};
  auto plain = [&]() -> Rows { return {with_batch(require(v), batch), std::nullopt}; };
  const Node& last = g_.producer(v);
  if (storage_.stored[v]) return plain();
  const ValueId windows = last.op == Op::reshape ? last.in[0] : v;
  std::optional<Followed> followed = follow(windows);
  if (!followed) return plain();
  const Dims& dims = g_.type(windows).dims;
  AffineMap& map = followed->map;
  // Indices: one for each batch axis, then those of M, then those of K.
  const Dims& matrix = g_.type(v).dims;
  auto parts = merged_axes(dims, matrix);
  const size_t own = matrix.size() - 2;
  if (!parts || std::any_of(parts->begin(), parts->begin() + static_cast<int64_t>(own), [](const auto& part) { return part.size() > 1; })) return plain();
  Rows rows{std::move(followed->place), AffineMap{batch, {}, std::nullopt}, 0, windows};
  AffineMap& to = *rows.map;
  std::vector<uint32_t> renamed(dims.size(), none_id);
  for (size_t j = 0; j < matrix.size(); ++j) {
    if (j < own) {
      for (size_t axis : (*parts)[j]) renamed[axis] = static_cast<uint32_t>(batch.size() - own + j);
      continue;
    }
    for (size_t axis : (*parts)[j]) {
      renamed[axis] = static_cast<uint32_t>(to.dims.size());
      to.dims.push_back(dims[axis]);
    }
    if ((*parts)[j].empty()) to.dims.push_back(1);
    if (j == own) rows.m_rank = to.dims.size() - batch.size();
  }
  for (AffineMap::Axis& axis : map.axes) {
    std::erase_if(axis.terms, [&](const AffineMap::Term& t) { return renamed[t.axis] == none_id; });
    for (AffineMap::Term& t : axis.terms) t.axis = renamed[t.axis];
    std::sort(axis.terms.begin(), axis.terms.end(), [](const auto& a, const auto& b) { return a.axis < b.axis; });
    to.axes.push_back(std::move(axis));
  }
  return rows;
}

}  // namespace ingot::compile
