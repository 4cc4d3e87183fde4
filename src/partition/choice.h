// Which nodes of a captured graph can run in an engine.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "partition/partition.h"

namespace ingot::partition {

struct Choice {
  Choice(const ir::Graph&, const std::vector<Refused>&);
  // The node runs in torch. The first reason counts.
  void stay(ir::NodeId, std::string why);

  std::vector<bool> here;           // per node: a call that can run in an engine
  std::vector<std::string> reason;  // per node in torch
};

// Keeps in torch what the settings name. Error (invalid_option) if a name matches nothing.
void keep_named(Choice&, const ir::Graph&, const Settings&);

inline std::string_view target(const ir::Graph& g, ir::NodeId n) { return g.nodes[n].attributes.string("target"); }
// "aten.gelu.default" -> "aten.gelu"
inline std::string_view without_overload(std::string_view target) { return target.substr(0, target.rfind('.')); }
inline std::string_view without_namespace(std::string_view target) { return target.substr(target.find('.') + 1); }

}  // namespace ingot::partition
