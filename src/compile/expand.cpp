#include "compile/expand.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "compile/below_views.h"
#include "compile/buffer_view.h"
#include "ir/compose.h"
#include "ir/replace.h"
#include "kernels/definition.h"

namespace ingot::compile {

using namespace ir;

namespace {

bool is_lacking(const Graph& g, const Node& node, const Backend& backend) {
  if (node.op != Op::attention) return false;  // other kernels are asked for when they are scheduled
  backend::Attention sketch{g.type(node.in[0]).dtype};
  sketch.d = g.type(node.in[0]).dims.back();
  sketch.e = g.type(node.in[2]).dims.back();
  return !backend.has_offer({std::move(sketch)});
}

// True if A is a view with overlapping windows.
bool has_windows(const Graph& g, const Node& matmul) {
  const Node& rows = g.producer(matmul.in[0]);
  if (rows.op != Op::reshape) return false;
  const Node& windows = g.producer(rows.in[0]);
  return windows.op == Op::view && !windows.attributes.map("map").fill && !is_bijective(windows.attributes.map("map"), g.type(windows.in[0]).dims);
}

// The next multiple of 8, which matrix instructions and vectors of halves need.
int64_t whole(int64_t channels) { return (channels + 7) / 8 * 8; }

// `x` with more elements along an axis, which are 0.
Handle with_zeros(const Handle& x, size_t axis, int64_t count) {
  Dims none(x.dims().size(), Dim(0)), more = none;
  more[axis] = count;
  return pad(x, none, more, 0);
}

// How many output channels a convolution needs so that a kernel of the backend reads its input in place; nullopt if it has enough, or if none helps.
std::optional<int64_t> wanted_columns(const Graph& g, const Node& node, const Backend& backend) {
  if (node.op != Op::matmul || !has_windows(g, node)) return std::nullopt;
  const auto columns = g.type(node.out[0]).dims.back().constant();
  // Kernels that read windows in place have one B for all rows; for groups there are others.
  const Dims& b = g.type(node.in[1]).dims;
  if (!std::all_of(b.begin(), b.end() - 2, [](const Dim& d) { return d == Dim(1); })) return std::nullopt;
  if (!columns || *columns == whole(*columns) || *columns == 0) return std::nullopt;
  auto count = [&](int64_t n) {
    backend::Gemm sketch = sketch_of(g, node);
    for (StridedLayout& b : sketch.b) b.dims.back() = n;
    return backend.offers({std::move(sketch)}).offers.size();
  };
  const int64_t more = whole(*columns);
  return count(more) > count(*columns) ? std::optional(more) : std::nullopt;
}

// Windows of a value whose channels are its last axis: the views between them, the one that makes the windows first.
struct Windows {
  ValueId value;
  std::vector<AffineMap> maps;
  int64_t channels;
};

// True if the map's last index is the operand's last axis, and no other axis depends on it.
bool keeps_channels(const AffineMap& map, const Dim& channels) {
  if (map.dims.empty() || map.axes.empty() || !(map.dims.back() == channels)) return false;
  const auto last = static_cast<uint32_t>(map.dims.size() - 1);
  const AffineMap::Axis& own = map.axes.back();
  if (own.terms.size() != 1 || !(own.offset == Dim(0)) || own.terms[0].axis != last || own.terms[0].coefficient != 1) return false;
  return std::all_of(map.axes.begin(), map.axes.end() - 1,
                     [&](const AffineMap::Axis& axis) { return std::all_of(axis.terms.begin(), axis.terms.end(), [&](const AffineMap::Term& t) { return t.axis != last; }); });
}

// The windows that the GEMM reads, if they have channels enough for a kernel that reads these in vectors, but not a multiple of its vectors.
std::optional<Windows> narrow_windows(const Graph& g, const Node& node, const Backend& backend) {
  constexpr int64_t least_channels = 12;  // fewer would be padded by more than half, and have kernels of their own
  if (node.op != Op::matmul || !has_windows(g, node)) return std::nullopt;
  const Node& windows = g.producer(g.producer(node.in[0]).in[0]);
  const Dim channels = g.type(windows.out[0]).dims.back();
  if (!channels.is_constant() || channels.value() < least_channels || !g.type(node.in[0]).dims.back().is_constant()) return std::nullopt;
  Windows found{windows.out[0], {}, channels.value()};
  while (g.producer(found.value).op == Op::view) {
    const Node& view = g.producer(found.value);
    AffineMap map = view.attributes.map("map");
    if (!keeps_channels(map, channels) || !(g.type(view.in[0]).dims.back() == channels)) break;
    found.value = view.in[0];
    found.maps.push_back(std::move(map));
  }
  if (found.maps.empty()) return std::nullopt;
  for (const backend::Offer& o : backend.offers({sketch_of(g, node)}).offers) {
    for (const backend::Wish& w : o.wishes) {
      if (w.operand == backend::Wish::Operand::a && w.kind == backend::Wish::Kind::multiple && found.channels % w.of != 0) return found;
    }
  }
  return std::nullopt;
}

// Makes the channels of what convolutions read a multiple of their kernel's vectors: pointwise work is done on all channels, and zeros take the place of its results
// on those that were added. Other readers get the channels that were there.
class ChannelWidener {
 public:
  ChannelWidener(const Graph& g, const Backend& backend) : g_(g), prepared_(find_prepared(g)), users_(g.users()), is_output_(g.values.size(), false) {
    for (const Output& o : g.outputs) is_output_[o.value] = true;
    for (NodeId n = 0; n < g.nodes.size(); ++n) {
      auto windows = narrow_windows(g, g.nodes[n], backend);
      if (!windows) continue;
      wanted_.insert(below_reshapes(windows->value));
      windows_.emplace(g.nodes[n].out[0], std::move(*windows));
    }
  }

  bool empty() const { return windows_.empty(); }

  std::optional<ValueId> widen(Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>& renamed) {
    const ValueId v = node.out[0];
    if (auto found = windows_.find(v); found != windows_.end()) return convolution(to, node, in, renamed, found->second);
    if (!is_map(node.op) || !wanted_.contains(v) || prepared_[v]) return std::nullopt;
    const auto c = static_cast<int64_t>(g_.type(v).dims.back().value());
    const Handle wide = zeroed(to, pointwise(to, node, renamed, c), c);
    wide_.emplace(v, wide);
    return slice(wide, -1, Dim(0), Dim(c), 1).id();
  }

 private:
  // The value that reshapes with the same channels are of.
  ValueId below_reshapes(ValueId v) const {
    while (g_.producer(v).op == Op::reshape && g_.type(g_.producer(v).in[0]).dims.back() == g_.type(v).dims.back()) v = g_.producer(v).in[0];
    return v;
  }

  static Handle zeroed(Graph& to, const Handle& wide, int64_t channels) {
    Dims line(wide.dims().size(), Dim(1));
    line.back() = whole(channels);
    return select(ir::map(Op::lt, {index(to, line, static_cast<Axis>(line.size()) - 1), Operand(Dim(channels))}), wide, 0);
  }

  Handle pointwise(Graph& to, const Node& node, const std::vector<ValueId>& renamed, int64_t channels) {
    std::vector<ValueId> operands;
    for (ValueId x : node.in) {
      // An operand that stands twice is made once; squares of squares would take exponential time.
      const auto before = static_cast<size_t>(std::find(node.in.begin(), node.in.end(), x) - node.in.begin());
      operands.push_back(before < operands.size() ? operands[before] : wide(to, renamed, x, channels).id());
    }
    Type type = infer(to, node.op, operands, node.attributes)[0];
    return {&to, to.add(node.op, operands, node.attributes, std::move(type))};
  }

  // An operand of pointwise work with whole channels. Those that were added may have any value.
  Handle wide(Graph& to, const std::vector<ValueId>& renamed, ValueId v, int64_t channels) {
    const Handle x(&to, renamed[v]);
    const Dims& dims = x.dims();
    if (dims.empty() || dims.back() == Dim(1)) return x;
    if (auto found = wide_.find(v); found != wide_.end()) return found->second;
    const Node& node = g_.producer(v);
    if (!prepared_[v] && users_[v].size() == 1 && !is_output_[v]) {
      if (is_map(node.op)) return pointwise(to, node, renamed, channels);
      if (node.op == Op::reshape && g_.type(node.in[0]).dims.back() == dims.back()) {
        Dims whole_dims = dims;
        whole_dims.back() = whole(channels);
        return reshape(wide(to, renamed, node.in[0], channels), whole_dims);
      }
      // The first columns of a result that has more (widen_results).
      const Node& view = to.producer(x.id());
      if (view.op == Op::view && keeps_channels(view.attributes.map("map"), Dim(channels)) && to.type(view.in[0]).dims.back() == Dim(whole(channels))) {
        AffineMap map = view.attributes.map("map");
        map.dims.back() = whole(channels);
        if (!map.fill) return ir::view(Handle(&to, view.in[0]), map);
      }
    }
    const Handle padded = with_zeros(x, dims.size() - 1, whole(channels) - channels);
    return prepared_[v] ? zeroed(to, padded, channels) : padded;  // a computed value, which prepare makes
  }

  ValueId convolution(Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>& renamed, const Windows& windows) {
    const int64_t c = windows.channels;
    const ValueId root = below_reshapes(windows.value);
    auto found = wide_.find(root);
    // Selected, the zeros are part of a value; a view that pads would be followed to what it pads.
    if (found == wide_.end()) found = wide_.emplace(root, zeroed(to, wide(to, renamed, root, c), c)).first;
    Dims dims = g_.type(windows.value).dims;
    dims.back() = whole(c);
    Handle a = reshape(found->second, dims);
    for (auto m = windows.maps.rbegin(); m != windows.maps.rend(); ++m) {
      AffineMap map = *m;
      map.dims.back() = whole(c);
      a = view(a, map);
    }
    Dims rows = g_.type(node.in[0]).dims;
    const int64_t places = rows.back().value() / c;
    rows.back() = places * whole(c);
    Handle b(&to, in[1]);
    Dims parts = b.dims(), all = b.dims();
    parts[parts.size() - 2] = places;
    parts.insert(parts.end() - 1, Dim(c));
    all[all.size() - 2] = rows.back();
    b = reshape(with_zeros(reshape(b, parts), parts.size() - 2, whole(c) - c), all);
    const std::vector<ValueId> operands{reshape(a, rows).id(), b.id()};
    return to.add(node.op, operands, node.attributes, infer(to, node.op, operands, node.attributes)[0]);
  }

  const Graph& g_;
  const std::vector<bool> prepared_;
  const std::vector<std::vector<NodeId>> users_;
  std::vector<bool> is_output_;
  std::unordered_set<ValueId> wanted_;
  std::unordered_map<ValueId, Windows> windows_;  // by the result of the convolution
  std::unordered_map<ValueId, Handle> wide_;      // in the new graph
};

}  // namespace

Graph widen_windows(Graph g, const Backend& backend) {
  ChannelWidener widener(g, backend);
  if (widener.empty()) return g;
  replace_nodes(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>& renamed) { return widener.widen(to, node, in, renamed); });
  return g;
}

Graph widen_results(Graph g, const Backend& backend) {
  replace_nodes(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>&) -> std::optional<ValueId> {
    const auto columns = wanted_columns(g, node, backend);
    if (!columns) return std::nullopt;
    const Handle b(&to, in[1]);
    const Dim n = b.dims().back();
    const std::vector<ValueId> operands{in[0], with_zeros(b, b.dims().size() - 1, *columns - n.value()).id()};
    const Handle y(&to, to.add(node.op, operands, node.attributes, infer(to, node.op, operands, node.attributes)[0]));
    return slice(y, -1, Dim(0), n, 1).id();
  });
  return g;
}

Graph expand_lacking(Graph g, const Backend& backend) {
  auto goes = [&](const Node& n) { return is_lacking(g, n, backend); };
  if (std::none_of(g.nodes.begin(), g.nodes.end(), goes)) return g;
  replace_nodes(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>&) {
    return goes(node) ? std::optional(kernels::definition_of(node.op)->expand(to, node, in)) : std::nullopt;
  });
  return g;
}

}  // namespace ingot::compile
