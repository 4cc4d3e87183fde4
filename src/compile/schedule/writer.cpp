#include "compile/schedule/writer.h"

#include <algorithm>
#include <limits>

#include "compile/schedule/domain.h"
#include "compile/schedule/pull.h"

namespace ingot::compile {

using namespace ir;
using backend::Reg;

namespace {

bool has_contiguous_rows(const StridedLayout& w) { return !w.strides.empty() && w.strides.back() == Dim(1); }

// What a body computes, and where it stores it. `itself`: the value is computed although it counts as stored.
struct Request {
  ValueId value;
  BufferView target;
  bool itself;
};

// The root below the views: they are undone by storing through their inverse. Merged axes have no affine index, the axes before a reshape do, and rows can be
// reduced only in the operand's order. Stops at a view that would make contiguous rows strided, unless an anchor below it can have the body as its epilogue.
Request below_views(const StoragePlan& s, Request root) {
  const Graph& g = s.graph();
  while (root.itself || !s.stored[root.value]) {
    const Node& node = g.producer(root.value);
    std::optional<StridedLayout> layout;
    bool permutes = false;
    if (node.op == Op::reshape) {
      layout = through_reshape(root.target.layout, g.type(node.in[0]).dims);
      permutes = true;
    } else if (node.op == Op::view) {
      layout = before_view(root.target.layout, node.attributes.map("map"), g.type(node.in[0]).dims);
      permutes = layout && is_bijective(node.attributes.map("map"), g.type(node.in[0]).dims);
    } else if (node.op == Op::bitcast && root.target.dtype == g.type(root.value).dtype) {  // the same bits are stored, also those of a NaN
      root = {node.in[0], std::move(root.target), false};
      root.target.dtype = g.type(root.value).dtype;
      continue;
    }
    if (!layout) break;
    const bool loses_rows = has_contiguous_rows(root.target.layout) && !has_contiguous_rows(*layout);
    if (loses_rows && !permutes && !has_anchor(s, node.in[0])) break;
    root.target.layout = std::move(*layout);
    root = {node.in[0], std::move(root.target), false};
  }
  return root;
}

// The layout of the root's store over the domain.
StridedLayout over_domain(const StridedLayout& target, const Domain& domain) {
  StridedLayout over;
  over.dims = domain.dims();
  over.offset = target.offset;
  over.strides.assign(over.dims.size(), Dim(0));
  for (size_t d = 0; d < domain.root.size(); ++d) {
    over.offset += target.strides[d] * domain.root[d].offset;
    for (const auto& [axis, coefficient] : domain.root[d].terms) over.strides[axis] += target.strides[d] * coefficient;
  }
  // A result that is uniform along the row is stored once.
  if (domain.uniform) std::fill(over.dims.begin() + static_cast<std::ptrdiff_t>(domain.outer.size()), over.dims.end(), Dim(1));
  return over;
}

}  // namespace

Outcome<WrittenBody> write_root(const StoragePlan& s, ValueId value, const BufferView& target, bool itself) {
  Request root = below_views(s, {value, target, itself});
  const Outcome<Domain> domain = choose_domain(s, root.value, root.itself);
  if (!domain) return Missing{domain.missing()};
  Puller p(s, domain->outer, domain->row);
  if (domain->anchor != none_id) {
    p.anchor = p.out.anchor = domain->anchor;
    p.out.gated = domain->gated;
    const Node& anchor = s.graph().producer(domain->anchor);
    p.out.label = is_product(anchor) ? name_of(anchor.op) : "depthwise_conv";
  }
  const Reg result = root.itself ? p.compute(root.value, domain->root) : p.pull(root.value, domain->root);
  if (p.missing_value != none_id) return Missing{p.missing_value};
  root.target.layout = over_domain(root.target.layout, *domain);
  WrittenBody written = p.finish(root.target.dtype, result);
  written.operands.push_back(std::move(root.target));
  return written;
}

Outcome<WrittenBody> write_prologue(const StoragePlan& s, ValueId a) {
  const Type& t = s.graph().type(a);
  auto written = write_root(s, a, {UINT32_MAX, t.dtype, row_major(t.dims)}, false);
  if (!written) return written;
  const Dims& outer = written->body.outer;
  if (written->anchor != none_id || std::any_of(outer.begin(), outer.end(), [](const Dim& d) { return !(d == Dim(1)); })) return Missing{s.base_of(a)};
  return written;
}

Outcome<WrittenBody> write_mask(const StoragePlan& s, ValueId mask, const Dims& scores, DType score) {
  Puller p(s, Dims(scores.begin(), scores.end() - 1), {scores.back()});
  const Type& type = s.graph().type(mask);
  Point at(type.dims.size());
  const size_t lead = scores.size() - at.size();
  for (size_t d = 0; d < at.size(); ++d) {
    if (!(type.dims[d] == Dim(1))) at[d].terms[static_cast<uint32_t>(lead + d)] = 1;
  }
  const Reg accumulator = p.accumulator(score, false), m = p.value(mask, at);
  if (p.missing_value != none_id) return Missing{p.missing_value};
  if (type.dtype != DType::b8) return p.finish(score, p.map(Op::add, score, {accumulator, m}));
  return p.finish(score, p.map(Op::select, score, {m, accumulator, p.number(-std::numeric_limits<double>::infinity(), score)}));
}

}  // namespace ingot::compile
