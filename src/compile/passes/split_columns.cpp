// A product whose columns are joined with others in groups becomes a product for each group. The columns of a transposed convolution's phases are neighbours in its product, but not in an image
// with more channels: a kernel that writes into that image has columns of one group. Prepare cuts the weights.
#include <algorithm>
#include <unordered_map>

#include "compile/below_views.h"
#include "compile/buffer_view.h"
#include "compile/passes/passes.h"
#include "compile/split.h"
#include "ir/compose.h"
#include "ir/replace.h"

namespace ingot::compile {

using namespace ir;

namespace {

// A view's axes that are groups of the operand's last axis, and the columns in a group.
struct Groups {
  size_t axis;
  int64_t count, columns;
};

std::optional<Groups> groups_of(const AffineMap& map, const Dims& dims) {
  if (map.fill || map.axes.empty() || map.dims.empty()) return std::nullopt;
  const AffineMap::Axis& last = map.axes.back();
  const auto inner = static_cast<uint32_t>(map.dims.size() - 1);
  if (last.terms.size() != 2 || !(last.offset == Dim(0)) || last.terms[1].axis != inner || last.terms[1].coefficient != 1) return std::nullopt;
  const uint32_t outer = last.terms[0].axis;
  const auto count = map.dims[outer].constant(), columns = map.dims[inner].constant();
  if (!count || !columns || *count < 2 || last.terms[0].coefficient != *columns || !(dims.back() == Dim(*count * *columns))) return std::nullopt;
  for (size_t j = 0; j + 1 < map.axes.size(); ++j) {
    if (std::any_of(map.axes[j].terms.begin(), map.axes[j].terms.end(), [&](const auto& t) { return t.axis == outer || t.axis == inner; })) return std::nullopt;
  }
  return Groups{outer, *count, *columns};
}

class ColumnSplitter {
 public:
  ColumnSplitter(const Graph& g, const Backend& backend) : g_(g), backend_(backend), users_(g.users()), is_output_(g.values.size(), false) {
    for (const Output& o : g.outputs) is_output_[o.value] = true;
    for (const Node& node : g.nodes) {
      if (node.op != Op::view || !is_read_once(node.in[0])) continue;
      const auto groups = groups_of(node.attributes.map("map"), g.type(node.in[0]).dims);
      if (groups && is_joined(node.out[0], Dim(groups->columns))) joined_.emplace(node.out[0], *groups);
    }
    if (!joined_.empty()) prepared_ = find_prepared(g);
  }

  bool empty() const { return joined_.empty(); }

  std::optional<ValueId> split(Graph& to, const Node& node, const std::vector<ValueId>& renamed) {
    const auto found = node.out.empty() ? joined_.end() : joined_.find(node.out[0]);
    if (found == joined_.end()) return std::nullopt;
    const Groups& groups = found->second;
    AffineMap map = node.attributes.map("map");
    map.dims[groups.axis] = 1;
    std::vector<Handle> parts;
    for (int64_t i = 0; i < groups.count; ++i) {
      const auto part = columns(to, renamed, node.in[0], i * groups.columns, groups.columns);
      if (!part) return std::nullopt;
      parts.push_back(view(Handle(&to, *part), map));
    }
    return concat(parts, static_cast<Axis>(groups.axis)).id();
  }

 private:
  bool is_read_once(ValueId v) const { return users_[v].size() == 1 && !is_output_[v]; }

  // True if views and concatenations along other axes lead to a concatenation along the axis of a group's columns.
  bool is_joined(ValueId v, const Dim& columns) const {
    for (;;) {
      const Dims& dims = g_.type(v).dims;
      if (!is_read_once(v) || dims.empty()) return false;
      const size_t last = last_axis(dims).value_or(0);
      if (!(dims[last] == columns)) return false;
      const Node& user = g_.nodes[users_[v][0]];
      if (user.op == Op::concat && user.attributes.integer("axis") == static_cast<int64_t>(last)) return true;
      if (user.op != Op::concat && user.op != Op::reshape && (user.op != Op::view || user.attributes.map("map").fill)) return false;
      v = user.out[0];
    }
  }

  // Columns [first, first + count) of a product with the pointwise work on it, if all else in that are numbers made of weights.
  std::optional<ValueId> columns(Graph& to, const std::vector<ValueId>& renamed, ValueId v, int64_t first, int64_t count) {
    const Node& node = g_.producer(v);
    auto cut = [&](ValueId w) { return slice(Handle(&to, renamed[w]), static_cast<Axis>(g_.type(w).dims.size()) - 1, Dim(first), Dim(first + count), 1); };
    if (node.op == Op::matmul) {
      if (g_.type(node.in[1]).dims.size() != 2 || !prepared_[node.in[1]] || !writes_lines(node)) return std::nullopt;
      return matmul(Handle(&to, renamed[node.in[0]]), cut(node.in[1]), node.attributes).id();
    }
    if (!is_map(node.op)) return std::nullopt;
    std::vector<ValueId> in;
    for (size_t i = 0; i < node.in.size(); ++i) {
      const ValueId x = node.in[i];
      const Dims& dims = g_.type(x).dims;
      if (i > 0 && x == node.in[0]) {
        in.push_back(in[0]);
      } else if (dims.empty() || dims.back() == Dim(1)) {
        in.push_back(renamed[x]);
      } else if (prepared_[x]) {
        in.push_back(cut(x).id());
      } else {
        const auto part = is_read_once(x) ? columns(to, renamed, x, first, count) : std::nullopt;
        if (!part) return std::nullopt;
        in.push_back(*part);
      }
    }
    Type type = infer(to, node.op, in, node.attributes)[0];
    return to.add(node.op, in, node.attributes, std::move(type));
  }

  // True if a kernel of the backend writes rows with gaps between lines at no cost.
  bool writes_lines(const Node& matmul) const {
    const backend::Offers found = backend_.offers(site_of(sketch_of(g_, matmul)));
    return std::any_of(found.offers.begin(), found.offers.end(),
                       [](const backend::Offer& o) { return !wishes(o, kernels::Role::output, backend::Wish::Axis::m, backend::Wish::Kind::even); });
  }

  const Graph& g_;
  const Backend& backend_;
  const std::vector<std::vector<NodeId>> users_;
  std::vector<bool> is_output_, prepared_;
  std::unordered_map<ValueId, Groups> joined_;  // views that split columns into groups, which are joined with others
};

}  // namespace

void split_columns(Graph& g, const Backend& backend) {
  ColumnSplitter splitter(g, backend);
  if (splitter.empty()) return;
  replace_nodes(g, [&](Graph& to, const Node& node, const std::vector<ValueId>&, const std::vector<ValueId>& renamed) { return splitter.split(to, node, renamed); });
}

}  // namespace ingot::compile
