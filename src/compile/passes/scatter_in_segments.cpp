// A scatter that combines whole rows at one index becomes a reduction of segments, if the backend has a kernel for it and its rows pay for an order: the places are sorted once, for all scatters by the same
// index, and each destination combines its rows in order. Rows that are gathered are read where they are.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compile/passes/passes.h"
#include "ir/compose.h"
#include "ir/replace.h"
#include "kernels/reduce_segments/run/reduce_segments_args.h"

namespace ingot::compile {

using namespace ir;

namespace {

// The rows in the order of their destinations, and for each destination the place in the order after its last row.
struct Segments {
  ValueId index = none_id;
  bool wraps = false;
  Dim count;
  Handle order, ends;
};

bool is_zero(const Graph& g, ValueId v) {
  while (is_view(g.producer(v).op)) v = g.producer(v).in[0];
  const Node& node = g.producer(v);
  return node.op == Op::literal && node.attributes.scalar("value").to_double() == 0;
}

// The order of axes with this one in front.
Axes in_front(size_t rank, int64_t axis) {
  Axes order{axis};
  for (Axis d = 0; d < static_cast<Axis>(rank); ++d) {
    if (d != axis) order.push_back(d);
  }
  return order;
}

class Rewriting {
 public:
  // Where one scatter pays for the order of an index, the others by that index take it too.
  Rewriting(Graph& g, const Backend& backend) : backend_(backend) {
    std::map<ValueId, std::vector<const Node*>> by_index;
    std::set<ValueId> ordered;
    for (const Node& node : g.nodes) {
      const auto rows = rows_of(g, node, node.in);
      if (!rows) continue;
      by_index[rows->index.id()].push_back(&node);
      if (pays(g, *rows)) ordered.insert(rows->index.id());
    }
    for (ValueId index : ordered) taken_.insert(by_index[index].begin(), by_index[index].end());
  }

  std::optional<ValueId> run(Graph& to, const Node& node, const std::vector<ValueId>& in) {
    if (!taken_.contains(&node)) return std::nullopt;
    const auto rows = rows_of(to, node, in);
    const auto& [base, updates, index, axis, position, wrap, kind] = *rows;
    const Segments& s = segments_of(index, wrap, base.dim(axis));
    Handle x = permute(updates, in_front(updates.dims().size(), position)), order = s.order;
    if (const Node& read = to.producer(updates.id()); position == 0 && is_gather_of_rows(to, read)) {
      const Handle table(&to, read.in[0]), from(&to, read.in[1]);
      x = table;
      order = gathered_order(from, wraps(read.attributes), table.dim(0), s.order);
    }
    Handle y = reduce_segments(x, order, s.ends, kind.c_str());
    // The axis back to its place.
    Axes back;
    for (Axis d = 0; d < base.rank(); ++d) back.push_back(d == axis ? 0 : d < axis ? d + 1 : d);
    y = permute(y, back);
    if (kind == "add") return is_zero(to, base.id()) ? y.id() : (base + y).id();
    if (kind == "mul") return (base * y).id();
    return (kind == "min" ? minimum(base, y) : maximum(base, y)).id();
  }

 private:
  // Rows `updates`, along the axis `position`, which `index` scatters along `axis` of `base`.
  struct Rows {
    Handle base, updates, index;
    int64_t axis, position;
    bool wraps;
    std::string kind;
  };

  static std::optional<Rows> rows_of(Graph& g, const Node& node, const std::vector<ValueId>& in) {
    if ((node.op != Op::scatter && node.op != Op::scatter_along) || in.size() != 3 || !is_float(g.type(in[0]).dtype)) return std::nullopt;
    const std::string& kind = node.attributes.string("kind");
    if (kind == "set") return std::nullopt;
    const Handle base(&g, in[0]);
    if (node.op == Op::scatter) {
      const std::vector<int64_t> axes = node.attributes.integers("axes");
      if (axes.size() != 1 || g.type(in[2]).dims.size() != 1) return std::nullopt;
      return Rows{base, {&g, in[1]}, {&g, in[2]}, axes[0], node.attributes.integer("position"), wraps(node.attributes), kind};
    }
    // Along an axis: by an index that is the same for all elements of a row.
    const Handle index(&g, in[1]), updates(&g, in[2]);
    const int64_t axis = node.attributes.integer("axis");
    const Node& repeated = g.producer(in[1]);
    if (repeated.op != Op::view || repeated.attributes.map("map").fill || g.type(repeated.in[0]).dims.size() != 1 || !(index.dims() == updates.dims())) return std::nullopt;
    for (Axis d = 0; d < base.rank(); ++d) {
      if (d != axis && !(base.dim(d) == updates.dim(d))) return std::nullopt;
    }
    const Handle of_rows(&g, repeated.in[0]);
    const bool is_own = repeated.attributes.map("map").axes[0] == AffineMap::Axis{0, {{static_cast<uint32_t>(axis), 1}}} && of_rows.dim(0) == index.dim(axis);
    return is_own ? std::optional(Rows{base, updates, of_rows, axis, axis, false, kind}) : std::nullopt;
  }

  static bool is_gather_of_rows(const Graph& g, const Node& n) {
    return n.op == Op::gather && n.in.size() == 2 && n.attributes.integers("axes") == std::vector<int64_t>{0} && n.attributes.integer("position") == 0 &&
           g.type(n.in[1]).dims.size() == 1;
  }

  static Handle counted_from_the_end(const Handle& index, const Dim& size) { return select(index < 0, index + Operand(size), index); }

  bool pays(const Graph& g, const Rows& rows) const {
    const auto& [base, updates, index, axis, position, wrap, kind] = rows;
    const std::vector<std::byte> constants = serialise(kernels::ReduceSegmentsArgs{kernels::kind_of_segments(kind)});
    backend::Site site{backend::Plain{"reduce_segments", constants}};
    site.symbols = g.symbols;
    auto add = [&](kernels::Role role, DType type, const Dims& dims) { site.operands.push_back({role, type, backend::unplaced(dims)}); };
    auto moved = [&](const Handle& x, int64_t front) {
      Dims out;
      for (Axis d : in_front(x.dims().size(), front)) out.push_back(x.dim(d));
      return out;
    };
    add(kernels::Role::input, base.dtype(), moved(updates, position));
    add(kernels::Role::index, DType::i64, rows.index.dims());
    add(kernels::Role::index, DType::i64, {base.dim(axis)});
    add(kernels::Role::output, base.dtype(), moved(base, axis));
    return backend_.has_offer(site);
  }

  const Segments& segments_of(const Handle& index, bool wraps, const Dim& count) {
    auto found = std::find_if(known_.begin(), known_.end(), [&](const Segments& s) { return s.index == index.id() && s.wraps == wraps && s.count == count; });
    if (found != known_.end()) return *found;
    Graph& g = index.graph();
    const Handle places = wraps ? counted_from_the_end(index, count) : index;
    // Keys of 32 bits are sorted in less time. An index that is outside is an error of the scatter of counts.
    const bool is_narrow = count.range(g.symbols).max <= INT32_MAX;
    const Handle order = sort(is_narrow ? cast(places, DType::i32) : places, 0, false, true).second;
    const Handle counts = scatter(full(g, {count}, 0, DType::i64), {0}, {index}, 0, wraps, full(g, index.dims(), 1, DType::i64), "add");
    known_.push_back({index.id(), wraps, count, order, scan("sum", counts, 0)});
    return known_.back();
  }

  // The rows of a table of `count`, which `from` gathers, in this order.
  Handle gathered_order(const Handle& from, bool wraps, const Dim& count, const Handle& order) {
    auto found =
        std::find_if(gathered_.begin(), gathered_.end(), [&](const Gathered& g) { return g.from == from.id() && g.wraps == wraps && g.count == count && g.order == order.id(); });
    if (found != gathered_.end()) return found->result;
    gathered_.push_back({from.id(), wraps, count, order.id(), gather(wraps ? counted_from_the_end(from, count) : from, {0}, {order}, 0, false)});
    return gathered_.back().result;
  }

  struct Gathered {
    ValueId from = none_id;
    bool wraps = false;
    Dim count;
    ValueId order = none_id;
    Handle result;
  };

  const Backend& backend_;
  std::set<const Node*> taken_;  // scatters of the graph before
  std::vector<Segments> known_;
  std::vector<Gathered> gathered_;
};

}  // namespace

void scatter_in_segments(Graph& g, const Backend& backend) {
  Rewriting rewriting(g, backend);
  replace_nodes(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>&) { return rewriting.run(to, node, in); });
}

}  // namespace ingot::compile
