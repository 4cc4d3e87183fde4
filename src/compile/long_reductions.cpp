// Few long rows leave most of a device idle that reduces each by one group of threads. They are reduced in parts, and then the parts.
#include <algorithm>
#include <numeric>

#include "compile/expand.h"
#include "ir/compose.h"
#include "ir/replace.h"

namespace ingot::compile {

using namespace ir;

namespace {

constexpr int64_t long_row = 16384, least_part = 512;
constexpr int64_t never_together = 1 << 19;  // a row of more elements is not reduced and read again by one kernel

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
  constexpr size_t most = 64;
  std::vector<ValueId> todo{v};
  for (size_t k = 0; k < todo.size(); ++k) {
    for (NodeId id : users[todo[k]]) {
      const Node& node = g.nodes[id];
      if (!is_view(node.op) && !is_map(node.op)) continue;
      for (ValueId out : node.out) {
        const auto n = elements(g.type(out).dims);
        if (!n || *n > rows || todo.size() >= most) return true;
        todo.push_back(out);
      }
    }
  }
  return false;
}

// True if the value is computed from a reduction's result, as the second sum of a softmax is.
bool reads_reduced(const Graph& g, ValueId v) {
  std::vector<ValueId> todo{v};
  for (size_t k = 0; k < todo.size(); ++k) {
    const Node& node = g.producer(todo[k]);
    if (node.op == Op::reduce) return true;
    if (!is_view(node.op) && !is_map(node.op)) continue;
    for (ValueId in : node.in) {
      if (std::find(todo.begin(), todo.end(), in) == todo.end()) todo.push_back(in);
    }
  }
  return false;
}

// Which part of the axes the first reduction keeps: all reduced axes before `axis`, and `parts` parts of that one.
struct Cut {
  int64_t axis, parts;
};

std::optional<Cut> cut_of(const Graph& g, const std::vector<std::vector<NodeId>>& users, const Node& node, int64_t wanted) {
  if (node.op != Op::reduce) return std::nullopt;
  const std::string& kind = node.attributes.string("kind");
  const Type &from = g.type(node.in[0]), &to = g.type(node.out[0]);
  const bool is_exact = kind == "max" || kind == "min" || kind == "any" || kind == "all", is_sum = kind == "sum" || kind == "prod";
  if (from.dtype != to.dtype || !(is_exact || is_sum)) return std::nullopt;
  const auto all = elements(from.dims), rows = elements(to.dims);
  if (!all || !rows || *rows < 1 || 16 * *rows > wanted || *all / *rows < long_row) return std::nullopt;
  if (*all / *rows < never_together && (is_read_along(g, users, node.out[0], *rows) || reads_reduced(g, node.in[0]))) return std::nullopt;
  const int64_t most = std::min(wanted, *all / least_part);
  int64_t made = *rows;
  for (Axis axis : axes_of(g, node)) {
    const int64_t n = *from.dims[static_cast<size_t>(axis)].constant();
    int64_t parts = std::min(n, most / made);
    while (n % parts != 0) --parts;
    made *= parts;
    if (parts < n) return made >= 4 * *rows ? std::optional(Cut{axis, parts}) : std::nullopt;
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

}  // namespace

Graph split_reductions(Graph g, const Backend& backend) {
  const int64_t wanted = backend::compiler_for(backend.target).reduced_rows;
  // The parts depend on the number of rows, which may be the batch.
  if (wanted == 1 || backend.settings.deterministic == backend::Deterministic::batch) return g;
  const std::vector<std::vector<NodeId>> users = g.users();
  replace_nodes(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>&) -> std::optional<ValueId> {
    const std::optional<Cut> cut = node.out.empty() ? std::nullopt : cut_of(g, users, node, wanted);
    if (!cut) return std::nullopt;
    const std::string kind = node.attributes.string("kind");
    Axes first, second;
    for (Axis axis : axes_of(g, node)) {
      if (axis <= cut->axis) second.push_back(axis);
      if (axis >= cut->axis) first.push_back(axis + 1);
    }
    // Sums of half types are rounded once.
    const DType type = g.type(node.out[0]).dtype, wide = is_float(type) && size_of(type) == 2 ? DType::f32 : type;
    const Handle parts = reduce(kind.c_str(), in_parts(cast(Handle(&to, in[0]), wide), *cut), first, keep);
    return cast(reshape(reduce(kind.c_str(), parts, second, keep), g.type(node.out[0]).dims), type).id();
  });
  return g;
}

}  // namespace ingot::compile
