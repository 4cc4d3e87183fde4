// A graph written anew, node by node, with other nodes in the place of some.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace ingot::ir {

// The value in place of the node's one result, of the same dtype and rank, or nullopt to copy the node. `in` are its operands in the new
// graph, `renamed` gives the new id of every old value that has been reached; new nodes get the old node's origin and group.
using Replace = std::function<std::optional<ValueId>(Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>& renamed)>;
// What ends up unused goes. True when anything has changed.
bool replace_nodes(Graph& g, const Replace& f);

// The same for nodes of several results: a value in place of each, or none to copy the node.
using ReplaceAll = std::function<std::vector<ValueId>(Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>& renamed)>;
bool replace_results(Graph& g, const ReplaceAll& f);

}  // namespace ingot::ir
