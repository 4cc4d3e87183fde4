// What the parts of expanding a captured graph read and write.
#pragma once
#include <string>
#include <vector>

#include "ir/graph.h"
#include "lower/lower.h"
#include "lower/versions.h"

namespace ingot::lower {

struct Expansion {
  Expansion(const ir::Graph& captured, SizesFromData, std::vector<bool> known = {});

  const ir::Graph& from;  // captured
  const SizesFromData data;
  ir::Graph to;
  Versions values;                // of `from`, in `to`
  std::vector<bool> read;         // per value of `from`
  std::vector<bool> known_sizes;  // per symbol: an axis of a tensor so far gives it
  std::vector<Missing> missing;
};

// For messages: the user's line, and the node's name.
std::string where(const Expansion&, const ir::Node&);
std::string node_name(const Expansion&, const ir::Node&);

// Notes that the call is missing. It stays in the new graph, so that the walk goes on and one error names all missing operators.
void refuse(Expansion&, ir::NodeId, const std::string& reason);

}  // namespace ingot::lower
