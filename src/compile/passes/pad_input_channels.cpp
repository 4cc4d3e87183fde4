// Makes the channels of what convolutions read a multiple of their kernel's vectors.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "compile/passes/pad_channels.h"
#include "compile/passes/passes.h"
#include "compile/passes/tuning.h"
#include "compile/split.h"
#include "ir/replace.h"

namespace ingot::compile {

using namespace ir;

namespace {

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
  if (node.op != Op::matmul || !rows_are_windows(g, node)) return std::nullopt;
  const Node& windows = g.producer(g.producer(node.in[0]).in[0]);
  const Dim channels = g.type(windows.out[0]).dims.back();
  if (!channels.is_constant() || channels.value() < tuning::min_channels || !g.type(node.in[0]).dims.back().is_constant()) return std::nullopt;
  Windows found{windows.out[0], {}, channels.value()};
  while (g.producer(found.value).op == Op::view) {
    const Node& view = g.producer(found.value);
    AffineMap map = view.attributes.map("map");
    if (!keeps_channels(map, channels) || !(g.type(view.in[0]).dims.back() == channels)) break;
    found.value = view.in[0];
    found.maps.push_back(std::move(map));
  }
  if (found.maps.empty()) return std::nullopt;
  for (const backend::Offer& o : backend.offers(site_of(sketch_of(g, node))).offers) {
    for (const backend::Wish& w : o.wishes) {
      if (w.operand == kernels::Role::a && w.kind == backend::Wish::Kind::multiple && found.channels % w.of != 0) return found;
    }
  }
  return std::nullopt;
}

// Pointwise work is done on all channels, and zeros take the place of its results on those that were added. Other readers get the channels that were there.
class ChannelPadder {
 public:
  ChannelPadder(const Graph& g, const Backend& backend) : g_(g) {
    for (NodeId n = 0; n < g.nodes.size(); ++n) {
      auto windows = narrow_windows(g, g.nodes[n], backend);
      if (!windows) continue;
      wanted_.insert(below_reshapes(windows->value));
      windows_.emplace(g.nodes[n].out[0], std::move(*windows));
    }
    if (empty()) return;
    prepared_ = find_prepared(g);
    users_ = g.users();
    is_output_.resize(g.values.size(), false);
    for (const Output& o : g.outputs) is_output_[o.value] = true;
  }

  bool empty() const { return windows_.empty(); }

  std::optional<ValueId> rewrite(Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>& renamed) {
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
    line.back() = padded_channels(channels);
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

  // An operand of pointwise work with padded channels, which may have any value.
  Handle wide(Graph& to, const std::vector<ValueId>& renamed, ValueId v, int64_t channels) {
    const Handle x(&to, renamed[v]);
    const Dims& dims = x.dims();
    if (dims.empty() || dims.back() == Dim(1)) return x;
    if (auto found = wide_.find(v); found != wide_.end()) return found->second;
    const Node& node = g_.producer(v);
    if (!prepared_[v] && users_[v].size() == 1 && !is_output_[v]) {
      if (is_map(node.op)) return pointwise(to, node, renamed, channels);
      if (node.op == Op::reshape && g_.type(node.in[0]).dims.back() == dims.back()) {
        Dims padded_dims = dims;
        padded_dims.back() = padded_channels(channels);
        return reshape(wide(to, renamed, node.in[0], channels), padded_dims);
      }
      // The first columns of a result that has more (pad_output_channels).
      const Node& view = to.producer(x.id());
      if (view.op == Op::view && keeps_channels(view.attributes.map("map"), Dim(channels)) && to.type(view.in[0]).dims.back() == Dim(padded_channels(channels))) {
        AffineMap map = view.attributes.map("map");
        map.dims.back() = padded_channels(channels);
        if (!map.fill) return ir::view(Handle(&to, view.in[0]), map);
      }
    }
    const Handle padded = with_zeros(x, dims.size() - 1, padded_channels(channels) - channels);
    return prepared_[v] ? zeroed(to, padded, channels) : padded;  // a computed value, which prepare makes
  }

  ValueId convolution(Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>& renamed, const Windows& windows) {
    const int64_t c = windows.channels;
    const ValueId root = below_reshapes(windows.value);
    auto found = wide_.find(root);
    // Selected, the zeros are part of a value; a view that pads would be followed to what it pads.
    if (found == wide_.end()) found = wide_.emplace(root, zeroed(to, wide(to, renamed, root, c), c)).first;
    Dims dims = g_.type(windows.value).dims;
    dims.back() = padded_channels(c);
    Handle a = reshape(found->second, dims);
    for (auto m = windows.maps.rbegin(); m != windows.maps.rend(); ++m) {
      AffineMap map = *m;
      map.dims.back() = padded_channels(c);
      a = view(a, map);
    }
    Dims rows = g_.type(node.in[0]).dims;
    const int64_t places = rows.back().value() / c;
    rows.back() = places * padded_channels(c);
    Handle b(&to, in[1]);
    Dims parts = b.dims(), all = b.dims();
    parts[parts.size() - 2] = places;
    parts.insert(parts.end() - 1, Dim(c));
    all[all.size() - 2] = rows.back();
    b = reshape(with_zeros(reshape(b, parts), parts.size() - 2, padded_channels(c) - c), all);
    const std::vector<ValueId> operands{reshape(a, rows).id(), b.id()};
    return to.add(node.op, operands, node.attributes, infer(to, node.op, operands, node.attributes)[0]);
  }

  const Graph& g_;
  std::vector<bool> prepared_, is_output_;
  std::vector<std::vector<NodeId>> users_;
  std::unordered_set<ValueId> wanted_;
  std::unordered_map<ValueId, Windows> windows_;  // by the result of the convolution
  std::unordered_map<ValueId, Handle> wide_;      // in the new graph
};

}  // namespace

void pad_input_channels(Graph& g, const Backend& backend) {
  ChannelPadder padder(g, backend);
  if (padder.empty()) return;
  replace_nodes(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>& renamed) { return padder.rewrite(to, node, in, renamed); });
}

}  // namespace ingot::compile
