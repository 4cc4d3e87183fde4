// Whether there is a compiler behind the API: in libingot there is one (compiler_api.cpp), in libingot_runtime there is none (no_compiler.cpp).
#pragma once
#include <memory>
#include <string_view>

#include "plan/plan.h"

namespace ingot::api {

// A plan as it was read; one of an older format is compiled anew from its graphs, for the targets that it has. Error (version) where there is no compiler.
std::shared_ptr<const plan::Plan> current(std::shared_ptr<const plan::Plan>);

// The plan, or what takes its place on a GPU that it has no program for: one compiled from its graph.
std::shared_ptr<const plan::Plan> plan_for(std::shared_ptr<const plan::Plan>, std::string_view device);

}  // namespace ingot::api
