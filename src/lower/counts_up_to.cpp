// Sums of a histogram's counts from the first bin on, as the ends of rows that are sorted by bin: how many elements are in a bin or before it. They are counted in one reduction, not added up in
// memory and then summed.
#include "lower/passes.h"
#include "lower/rewrite.h"
#include "lower/tuning.h"

namespace ingot::lower {

namespace {

// The value before casts that keep whole numbers of up to max_pairs.
ValueId without_casts(const Graph& g, ValueId v) {
  using ir::DType;
  while (maker(g, v).op == Op::cast) {
    const DType type = g.type(v).dtype;
    if (type != DType::i64 && type != DType::i32 && type != DType::f32 && type != DType::f64) return v;
    v = maker(g, v).in[0];
  }
  return v;
}

bool is_number(const Graph& g, ValueId v, double wanted) {
  const auto n = number_of(g, v);
  return n && n->to_double() == wanted;
}

// True if the conjunction has the comparison of v with a number.
bool holds(const Graph& g, ValueId condition, Op comparison, ValueId v, double number) {
  const Node& n = maker(g, condition);
  if (n.op == Op::bit_and) return holds(g, n.in[0], comparison, v, number) || holds(g, n.in[1], comparison, v, number);
  return n.op == comparison && n.in[0] == v && is_number(g, n.in[1], number);
}

// True if the index is one of `bins`, or the number of bins, which stands for none.
bool is_bin_or_none(const Graph& g, ValueId index, int64_t bins) {
  const Node& n = maker(g, index);
  const auto wanted = static_cast<double>(bins);
  return n.op == Op::select && is_number(g, n.in[2], wanted) && holds(g, n.in[0], Op::lt, n.in[1], wanted) && holds(g, n.in[0], Op::ge, n.in[1], 0);
}

}  // namespace

void counts_up_to(Graph& g) {
  rewrite(g, [](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    if (node.op != Op::scan || node.attributes.string("kind") != "sum" || to.type(in[0]).dims.size() != 1) return std::nullopt;
    const ValueId counts = without_casts(to, in[0]);
    const Node& slice = maker(to, counts);
    const auto bins = to.type(counts).dims[0].constant();
    if (!bins || slice.op != Op::view) return std::nullopt;
    const ir::AffineMap& map = slice.attributes.map("map");
    const Node& scatter = maker(to, slice.in[0]);
    const bool from_first = !map.fill && map.axes.size() == 1 && map.axes[0].offset == Dim(0) && map.axes[0].terms.size() == 1 && map.axes[0].terms[0].coefficient == 1;
    if (!from_first || scatter.op != Op::scatter || scatter.in.size() != 3 || scatter.attributes.string("kind") != "add") return std::nullopt;
    const Handle index(&to, scatter.in[2]);
    const bool is_histogram = is_number(to, scatter.in[0], 0) && is_number(to, scatter.in[1], 1) && index.rank() == 1 && is_bin_or_none(to, index.id(), *bins);
    const auto elements = index.dims()[0].constant();
    if (!is_histogram || !elements || *elements * *bins > tuning::max_pairs) return std::nullopt;
    const Handle below = unsqueeze(index, 0) <= unsqueeze(iota(to, *bins), 1);
    return cast(sum(below, {1}), to.type(in[0]).dtype).id();
  });
}

}  // namespace ingot::lower
