// Evaluates a graph by the reference interpreter, node by node; values may be replaced by those that a program has computed.
#pragma once
#include <span>
#include <vector>

#include "ir/evaluate.h"

namespace ingot::verification {

class Values {
 public:
  // Floats are evaluated in double and not rounded, except by casts and in leaves.
  Values(ir::Graph graph, std::vector<int64_t> symbols);
  const ir::Graph& graph() const { return graph_; }
  const std::vector<int64_t>& symbols() const { return symbols_; }
  void set(ir::ValueId v, ir::Data data) { data_[v] = std::move(data); }
  // Evaluates all nodes up to the one that computes the value.
  const ir::Data& up_to(ir::ValueId v);
  // Replaces an evaluated value: later values are computed from `data`.
  void replace(ir::ValueId v, ir::Data data);
  // False for the result of a registered kernel without a host function, which cannot be compared.
  bool is_known(ir::ValueId v) const;

 private:
  void evaluate_external(const ir::Node&);

  ir::Graph graph_;
  std::vector<ir::DType> types_;  // per value, as in the graph
  std::vector<int64_t> symbols_;
  std::vector<ir::Data> data_;
  std::vector<size_t> last_;  // per value: its last user
  size_t next_ = 0;
};

}  // namespace ingot::verification
