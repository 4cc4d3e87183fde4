// Lower: a captured graph becomes a canonical one (calls expanded by the operator table, sizes checked against what torch recorded), then
// passes recognise and simplify patterns: masks, RMSNorm, RoPE, grouped heads, QKV merge.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/target.h"
#include "ir/graph.h"
#include "ir/pass.h"

namespace ingot::lower {

// A call that lower cannot expand. UnsupportedError lists them.
struct Missing {
  std::string target, reason, origin;
  ir::NodeId node = ir::none_id;  // of the captured graph
};

using Pass = ir::Pass<>;
// In the order in which they run (passes.def).
const std::vector<Pass>& passes();

// Expands every call. Error (unsupported) that lists every missing operator with the user's lines.
ir::Graph expand_operators(const ir::Graph& captured);
// Of all calls, in order. Whether sizes may be read from data (nonzero, item): only in a graph that runs here as a whole.
enum class SizesFromData : bool { refused, allowed };
std::vector<Missing> missing_operators(const ir::Graph& captured, SizesFromData = SizesFromData::allowed);
// Calls of operators for which the user registered a kernel, though not for all of these targets.
std::vector<Missing> kernels_not_for(const ir::Graph& captured, std::span<const Target>);
// expand_operators, then the passes. `observe` is called after each.
ir::Graph lower(const ir::Graph& captured, const ir::PassObserver& observe = {});

// Rounds the half result of every operator of torch, as eager does, where it is not stored either. Of a lowered graph.
void round_results(ir::Graph&);

}  // namespace ingot::lower
