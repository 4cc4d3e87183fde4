// How passes are written: walk the old graph in order, build the new one, and look backwards for patterns in what is already built.
#pragma once
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/compose.h"
#include "ir/graph.h"
#include "ir/replace.h"

namespace ingot::lower {

using ir::Dim;
using ir::Dims;
using ir::Graph;
using ir::Handle;
using ir::Node;
using ir::Op;
using ir::ValueId;

// The replacement of the node's one result, or nullopt to copy the node. `in` are its operands in the new graph; new nodes get
// the old node's origin and group.
using Rewrite = std::function<std::optional<ValueId>(Graph& to, const Node& node, const std::vector<ValueId>& in)>;
void rewrite(Graph& g, const Rewrite& f);
// The same for passes that need other values than the operands: `renamed` gives the new id of every old value that has been reached.
using NamedRewrite = ir::Replace;
void rewrite_named(Graph& g, const NamedRewrite& f);
// Repeats `f` until nothing changes, at most `rounds` times.
void rewrite_to_fixpoint(Graph& g, const Rewrite& f, int rounds = 8);

// How often each value is read (an output counts).
std::vector<int> use_counts(const Graph& g);

// ---- looking at what is there
inline const Node& maker(const Graph& g, ValueId v) { return g.nodes[g.values[v].producer]; }
inline bool is(const Graph& g, ValueId v, Op op) { return maker(g, v).op == op; }
// The number of a literal, looking through views that only repeat it.
std::optional<ir::Scalar> number_of(const Graph& g, ValueId v);
// The other operand when the node is `op` with one operand a literal; the literal's number in `number`.
std::optional<ValueId> with_number(const Graph& g, ValueId v, Op op, double* number);
// A view that only adds axes of size 1 or repeats: a map's own broadcasting does the same. nullopt when it does more.
bool only_broadcasts(const Graph& g, const Node& view);
// True if a view of `operand` with a fill can be read by comparing one index with each axis. Steps, permuted axes, windows, and a place on an axis that may be
// empty read a padded tensor in memory instead.
bool is_guardable(const Graph& g, ValueId operand, const ir::AffineMap& map);
// True if every index is inside an operand of these sizes, so that no fill is read.
bool stays_inside(const Graph& g, const Dims& operand, const ir::AffineMap& map);
// Which values of a graph are made from weights and literals alone, so that prepare computes them. None depends on a dynamic size or on a buffer that the model
// writes. The graph may grow between two calls.
class WeightValues {
 public:
  enum class Through : uint8_t { moves, maps };  // views, joins and casts; or all work on elements too
  // Of `whole`, or of the graph that is built from it.
  explicit WeightValues(const Graph& whole, Through through = Through::moves);
  bool contain(const Graph& g, ValueId v);

 private:
  bool is_one(const Graph& g, const Node& n) const;
  std::set<std::string, std::less<>> written_;
  Through through_;
  size_t nodes_ = 0;  // that were looked at
  std::vector<bool> known_;
};

// The matmul or reduction that `v` is the result of, through at most `depth` views and pointwise operations; nullopt if there is none, or if `uses` has other readers on
// the way.
std::optional<ValueId> product_below(const Graph& g, ValueId v, const std::vector<int>* uses = nullptr, int depth = 10);

// True if axes of a view that walk along one axis of its operand overlap: the windows of a convolution or a pooling. Of sizes that are not known it is assumed.
bool has_windows(const ir::AffineMap::Axis& axis, const Dims& dims);

}  // namespace ingot::lower
