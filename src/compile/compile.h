// Compile: a canonical graph becomes a plan. Fuse into sites and bodies, assign offers and layouts, place buffers, emit.
#pragma once
#include <functional>
#include <string_view>

#include "compile/options.h"
#include "ir/graph.h"
#include "plan/plan.h"

namespace ingot::compile {

// `progress(stage, fraction)` returns false to cancel (Error cancelled).
plan::Plan compile(const ir::Graph& canonical, const Options&, const std::function<bool(std::string_view, double)>& progress = {});

}  // namespace ingot::compile
