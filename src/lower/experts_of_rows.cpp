// Rows that are each multiplied by a matrix of their own, gathered from a table by an index of the row's expert, become products of experts: the rows are sorted by expert, so that each matrix
// is read once and none is copied.
#include "lower/passes.h"
#include "lower/rewrite.h"

namespace ingot::lower {

namespace {

// The node that gathers whole matrices of a table by one index a row; null if it is another.
const Node* gathered_matrices(const Graph& g, ValueId v) {
  const Node& n = maker(g, v);
  const bool whole = n.op == Op::gather && n.in.size() == 2 && n.attributes.integers("axes") == std::vector<int64_t>{0} && n.attributes.integer("position") == 0;
  return whole && g.type(n.in[0]).dims.size() == 3 && g.type(n.in[1]).dims.size() == 1 ? &n : nullptr;
}

}  // namespace

void experts_of_rows(Graph& g) {
  rewrite(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    if (node.op != Op::matmul || in.size() != 2 || to.type(in[0]).dims.size() != 3 || to.type(in[1]).dims.size() != 3) return std::nullopt;
    const Handle a(&to, in[0]), b(&to, in[1]);
    if (a.dtype() != b.dtype() || !(a.dim(0) == b.dim(0)) || a.dim(0) == Dim(1)) return std::nullopt;
    // A row times a matrix, or a matrix times a column.
    const Node* matrices = a.dim(1) == Dim(1) ? gathered_matrices(to, in[1]) : nullptr;
    const bool left = matrices == nullptr && b.dim(2) == Dim(1);
    if (left) matrices = gathered_matrices(to, in[0]);
    if (matrices == nullptr) return std::nullopt;
    const Handle table(&to, matrices->in[0]), index(&to, matrices->in[1]);
    const bool wraps = matrices->attributes.find("wrap") != nullptr && matrices->attributes.boolean("wrap");
    const Dim rows = a.dim(0), experts = table.dim(0);
    const Handle x = reshape(left ? b : a, {rows, left ? b.dim(1) : a.dim(2)}), w = left ? transpose(table, 1, 2) : table;
    // As an element of a table: an index that is outside is still an error.
    const Handle expert = gather(iota(to, experts), {0}, {index}, 0, wraps);
    const Handle order = sort(expert, 0, false, true).second, ends = sum(unsqueeze(expert, 1) <= unsqueeze(iota(to, experts), 0), {0});
    const Handle back = scatter(full(to, {rows}, 0, ir::DType::i64), {0}, {order}, 0, false, iota(to, rows), "set");
    const Handle y = gather(ragged_matmul(gather(x, {0}, {order}, 0, false), w, ends), {0}, {back}, 0, false);
    return reshape(y, {rows, left ? a.dim(1) : Dim(1), left ? Dim(1) : b.dim(2)}).id();
  });
}

}  // namespace ingot::lower
