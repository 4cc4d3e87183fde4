// Building a new graph from an old one, node by node: the frame most passes share.
#pragma once
#include <functional>
#include <vector>

#include "ir/graph.h"

namespace ingot::lower {

class Rewriter {
 public:
  explicit Rewriter(const ir::Graph& from);
  // Called for every node in order; returns true when it has set the results with `set` (in the new graph), false to have
  // the node copied.
  using Rewrite = std::function<bool(Rewriter&, ir::NodeId)>;
  ir::Graph run(const Rewrite&);

  const ir::Graph& from() const { return from_; }
  ir::Graph& to() { return to_; }
  ir::ValueId operator()(ir::ValueId old) const { return map_[old]; }
  void set(ir::ValueId old, ir::ValueId now) { map_[old] = now; }

 private:
  const ir::Graph& from_;
  ir::Graph to_;
  std::vector<ir::ValueId> map_;
};

}  // namespace ingot::lower
