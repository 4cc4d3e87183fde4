// Compile: a canonical graph becomes a plan: storage, schedule, emission (function.h), for each target.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "compile/options.h"
#include "ir/graph.h"
#include "plan/plan.h"

namespace ingot::compile {

struct NamedGraph {
  std::string name;  // of the function
  ir::Graph graph;   // canonical
};

// One function for each graph; weights of one name are one weight. `progress(stage, fraction)` returns false to cancel
// (Error cancelled). `decisions`, where it is given: a text of what is stored and why, and of each step's offers and refusals.
plan::Plan compile(std::span<const NamedGraph> functions, const Options&, const std::function<bool(std::string_view, double)>& progress = {}, std::string* decisions = nullptr);
inline plan::Plan compile(const ir::Graph& canonical, const Options& options, const std::function<bool(std::string_view, double)>& progress = {}) {
  NamedGraph one{"forward", canonical};
  return compile(std::span(&one, 1), options, progress);
}

}  // namespace ingot::compile
