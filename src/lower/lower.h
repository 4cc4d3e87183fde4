// Lower: a captured graph becomes a canonical one (calls expanded by the operator table, sizes checked against what torch recorded), then
// a list of passes recognises and simplifies: masks, RMSNorm, RoPE, grouped heads, QKV merge.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace ingot::lower {

// A row that lower cannot expand: what UnsupportedError lists.
struct Missing {
  std::string target, reason, origin;
  ir::NodeId node = ir::none_id;  // of the captured graph
};

struct Pass {
  std::string_view name;
  void (*run)(ir::Graph&);
};
// In the order they run; each is verified after and can be switched off by name (INGOT_DISABLE).
const std::vector<Pass>& passes();

// Every row of the graph expanded. Error (unsupported) listing every missing operator with the user's lines.
ir::Graph expand_rows(const ir::Graph& captured);
// Of all rows, in order. Whether sizes may be read from data (nonzero, item): only in a graph that runs here as a whole.
enum class SizesFromData : bool { refused, allowed };
std::vector<Missing> missing_rows(const ir::Graph& captured, SizesFromData = SizesFromData::allowed);
// expand_rows, then the passes. `observe` is called after each with its name and seconds.
ir::Graph lower(const ir::Graph& captured, const std::function<void(std::string_view, double, const ir::Graph&)>& observe = {});

}  // namespace ingot::lower
