// Few long rows leave most of a device idle that reduces each by one group of threads. They are reduced in parts, and then the parts.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "compile/below_views.h"
#include "compile/passes/passes.h"
#include "compile/passes/tuning.h"
#include "ir/compose.h"
#include "ir/replace.h"

namespace ingot::compile {

using namespace ir;

namespace {

std::optional<int64_t> elements(const Dims& dims) {
  int64_t n = 1;
  for (const Dim& d : dims) {
    if (!d.constant()) return std::nullopt;
    n *= *d.constant();
  }
  return n;
}

// Of a reduction; none are all axes.
Axes axes_of(const Graph& g, const Node& node) {
  Axes axes = node.attributes.integers("axes");
  if (axes.empty()) {
    axes.resize(g.type(node.in[0]).dims.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  std::sort(axes.begin(), axes.end());
  return axes;
}

// True if a result is broadcast to longer rows again, as in a softmax: one kernel may compute all of that.
bool is_read_along(const Graph& g, const std::vector<std::vector<NodeId>>& users, ValueId v, int64_t rows) {
  std::vector<ValueId> todo{v};
  for (size_t k = 0; k < todo.size(); ++k) {
    for (NodeId id : users[todo[k]]) {
      const Node& node = g.nodes[id];
      if (!is_view(node.op) && !is_map(node.op)) continue;
      for (ValueId out : node.out) {
        const auto n = elements(g.type(out).dims);
        if (!n || *n > rows || todo.size() >= tuning::max_readers) return true;
        todo.push_back(out);
      }
    }
  }
  return false;
}

// True if the value is computed from a reduction's result, as the second sum of a softmax is.
bool reads_reduced(const Graph& g, ValueId v) {
  std::vector<ValueId> todo{v};
  std::set<ValueId> seen{v};
  for (size_t k = 0; k < todo.size(); ++k) {
    const Node& node = g.producer(todo[k]);
    if (node.op == Op::reduce) return true;
    if (!is_view(node.op) && !is_map(node.op)) continue;
    for (ValueId in : node.in) {
      if (seen.insert(in).second) todo.push_back(in);
    }
  }
  return false;
}

// How many rows are neighbours in memory, which a block reduces together.
int64_t rows_side_by_side(const Graph& g, const Node& node, const Axes& axes) {
  const Dims& dims = g.type(node.in[0]).dims;
  const size_t inner = innermost(g, node.in[0], Below::operations).value_or(last_axis(dims).value_or(0));
  if (std::count(axes.begin(), axes.end(), static_cast<Axis>(inner)) != 0) return 1;
  return std::min(tuning::columns_of_block, dims[inner].constant().value_or(1));
}

bool is_arg(const std::string& kind) { return kind == "argmax" || kind == "argmin"; }

// Which part of the axes the first reduction keeps: all reduced axes before `axis`, and `parts` parts of that one.
struct Cut {
  int64_t axis, parts;
};

std::optional<Cut> cut_of(const Graph& g, const std::vector<std::vector<NodeId>>& users, const Node& node, int64_t wanted) {
  if (node.op != Op::reduce) return std::nullopt;
  const std::string& kind = node.attributes.string("kind");
  const Type &from = g.type(node.in[0]), &to = g.type(node.out[0]);
  const bool is_exact = kind == "max" || kind == "min" || kind == "any" || kind == "all", is_sum = kind == "sum" || kind == "prod";
  if (is_arg(kind) ? from.dtype == DType::b8 : from.dtype != to.dtype || !(is_exact || is_sum)) return std::nullopt;
  const auto all = elements(from.dims), rows = elements(to.dims);
  if (!all || !rows || *rows < 1 || *all < tuning::min_row) return std::nullopt;
  const Axes axes = axes_of(g, node);
  const int64_t side_by_side = rows_side_by_side(g, node, axes), blocks = (*rows + side_by_side - 1) / side_by_side, factor = side_by_side > 1 ? tuning::column_factor : 1;
  if (tuning::idle_factor * blocks > wanted || *all / blocks < factor * tuning::min_row) return std::nullopt;
  if (*all / *rows < tuning::max_row_read_again && (is_read_along(g, users, node.out[0], *rows) || reads_reduced(g, node.in[0]))) return std::nullopt;
  const int64_t max_blocks = std::min(wanted, *all / (factor * tuning::min_part));
  int64_t made = blocks;
  const bool is_flat = is_arg(kind) && axes.size() > 1;  // counts all elements
  for (Axis axis : axes) {
    const int64_t n = is_flat ? *all : *from.dims[static_cast<size_t>(axis)].constant();
    int64_t parts = std::min(n, max_blocks / made);
    while (n % parts != 0) --parts;
    made *= parts;
    if (parts < n) return made >= tuning::min_gain * blocks ? std::optional(Cut{axis, parts}) : std::nullopt;
  }
  return std::nullopt;
}

// The operand with the axis as [parts, rest].
Handle in_parts(const Handle& x, const Cut& cut) {
  AffineMap map;
  const Dims dims = x.dims();
  for (size_t d = 0; d < dims.size(); ++d) {
    const auto at = static_cast<uint32_t>(map.dims.size());
    if (static_cast<int64_t>(d) != cut.axis) {
      map.dims.push_back(dims[d]);
      map.axes.push_back({0, {{at, 1}}});
      continue;
    }
    const int64_t rest = *dims[d].constant() / cut.parts;
    map.dims.push_back(Dim(cut.parts));
    map.dims.push_back(Dim(rest));
    map.axes.push_back({0, {{at, rest}, {at + 1, 1}}});
  }
  return view(x, map);
}

class ReductionSplitter {
 public:
  ReductionSplitter(const Graph& g, const std::vector<std::vector<NodeId>>& users) : g_(g), users_(users) {}

  ValueId split(const Node& node, const Handle& x, const Cut& cut) {
    const std::string kind = node.attributes.string("kind");
    const Dims& dims = g_.type(node.out[0]).dims;
    if (is_arg(kind)) return place(node, x, cut).id();
    if (const Node* arg = arg_of(node)) {
      Dims kept = x.dims();
      kept[static_cast<size_t>(cut.axis)] = 1;
      return reshape(take_along(x, cut.axis, reshape(place(*arg, x, cut), kept)), dims).id();
    }
    Axes first, second;
    for (Axis axis : axes_of(g_, node)) {
      if (axis <= cut.axis) second.push_back(axis);
      if (axis >= cut.axis) first.push_back(axis + 1);
    }
    // Sums of half types are rounded once.
    const DType type = x.dtype(), wide = is_float(type) && size_of(type) == 2 && (kind == "sum" || kind == "prod") ? DType::f32 : type;
    const Handle parts = reduce(kind.c_str(), in_parts(cast(x, wide), cut), first, keep);
    return cast(reshape(reduce(kind.c_str(), parts, second, keep), dims), type).id();
  }

 private:
  // The reduction that gives the places of a maximum or minimum along one axis, if there is one.
  const Node* arg_of(const Node& node) const {
    const std::string& kind = node.attributes.string("kind");
    const Axes axes = axes_of(g_, node);
    if ((kind != "max" && kind != "min") || axes.size() != 1) return nullptr;
    for (NodeId id : users_[node.in[0]]) {
      const Node& other = g_.nodes[id];
      if (other.op == Op::reduce && other.attributes.string("kind") == "arg" + kind && axes_of(g_, other) == axes) return &other;
    }
    return nullptr;
  }

  // The result of `arg`: of the parts' best elements the first best one, and where it is in its part.
  Handle place(const Node& arg, const Handle& operand, const Cut& cut) {
    auto [found, is_new] = places_.try_emplace(arg.out[0], none_id);
    if (is_new) {
      const std::string kind = arg.attributes.string("kind");
      const Handle x = axes_of(g_, arg).size() > 1 ? reshape(operand, {operand.numel()}) : operand, parts = in_parts(x, cut);
      const Handle in_part = reduce(kind.c_str(), parts, {cut.axis + 1}, keep);
      const Handle part = reduce(kind.c_str(), take_along(parts, cut.axis + 1, in_part), {cut.axis}, keep);
      found->second = reshape(take_along(in_part, cut.axis, part) + part * (x.dim(cut.axis).value() / cut.parts), g_.type(arg.out[0]).dims).id();
    }
    return Handle(&operand.graph(), found->second);
  }

  const Graph& g_;
  const std::vector<std::vector<NodeId>>& users_;
  std::map<ValueId, ValueId> places_;  // old result -> new one
};

}  // namespace

void split_reductions(Graph& g, const Backend& backend) {
  const auto wanted = static_cast<int64_t>(backend.settings.machine.rows);
  // The parts depend on the number of rows, which may be the batch.
  if (wanted == 1 || backend.settings.deterministic == backend::Deterministic::batch) return;
  const std::vector<std::vector<NodeId>> users = g.users();
  ReductionSplitter splitter(g, users);
  replace_nodes(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>&) -> std::optional<ValueId> {
    const std::optional<Cut> cut = node.out.empty() ? std::nullopt : cut_of(g, users, node, wanted);
    if (!cut) return std::nullopt;
    return splitter.split(node, Handle(&to, in[0]), *cut);
  });
}

}  // namespace ingot::compile
