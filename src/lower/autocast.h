// Autocast: low precision for the calls of a captured graph that gain by it (option autocast).
//
// Products, convolutions and attention compute in the low type. Pointwise calls and views after them follow: a call has the widest type of what it reads, as in torch. All
// others stay in float32 (softmax, norms, sums, exp). Inputs, results and what the model writes keep their types: casts stand inside.
#pragma once
#include <string>
#include <vector>

#include "ir/graph.h"

namespace ingot::lower {

struct Autocast {
  ir::DType type = ir::DType::f32;   // f16 or bf16
  std::vector<std::string> exclude;  // regular expressions, see names_nothing
};

// What a call computes in. reason: why it is not the low type; empty for one that is, and for one without float32 numbers.
struct Precision {
  bool low = false;
  std::string reason;
};

struct Cast {
  ir::Graph graph;
  std::vector<Precision> nodes;  // of the graph before
  std::vector<ir::NodeId> original;  // per node of the new graph: the call it is of the graph before; none_id for casts, inputs and weights
  size_t casts = 0;              // of values that are not weights: prepare casts these
};

// Those of `patterns` that name no call of the graph. A pattern is for the whole of a node's name, of its operator's ("aten.linear.default", "aten.linear", "linear"), of
// the path of a module around it, or of its class; "node:linear" and "module:encoder" are
// for those alone.
std::vector<std::string> names_nothing(const ir::Graph& captured, const std::vector<std::string>& patterns);

// Error (invalid_option) for a pattern that is not a regular expression.
Cast autocast(const ir::Graph& captured, const Autocast&);

}  // namespace ingot::lower
