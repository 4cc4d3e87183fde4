// A graph's values by the reference, node by node, of which some are replaced by what a program has computed.
#pragma once
#include <span>
#include <vector>

#include "ir/evaluate.h"

namespace ingot::verification {

class Values {
 public:
  // Floats are double and not rounded, but for casts and what leaves hold.
  Values(ir::Graph graph, std::vector<int64_t> symbols);
  const ir::Graph& graph() const { return graph_; }
  const std::vector<int64_t>& symbols() const { return symbols_; }
  void set(ir::ValueId v, ir::Data data) { data_[v] = std::move(data); }
  // All nodes up to the one that makes the value.
  const ir::Data& up_to(ir::ValueId v);
  // The same, of a value that the program has computed already: what follows is computed from `data`.
  void replace(ir::ValueId v, ir::Data data);
  // False for what a kernel of the user's makes that has no function for the CPU: there is nothing to compare it with.
  bool is_known(ir::ValueId v) const;

 private:
  void evaluate_external(const ir::Node&);

  ir::Graph graph_;
  std::vector<ir::DType> types_;  // per value, as the graph has them
  std::vector<int64_t> symbols_;
  std::vector<ir::Data> data_;
  std::vector<size_t> last_;  // per value: the node after which nobody needs it
  size_t next_ = 0;
};

}  // namespace ingot::verification
