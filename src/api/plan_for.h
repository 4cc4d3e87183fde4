// The API's use of the compiler: libingot has one (compiler_api.cpp), libingot_runtime has none (no_compiler.cpp).
#pragma once
#include <memory>
#include <string_view>

#include "plan/plan.h"

namespace ingot::api {

// Compiles a plan whose programs are of another revision (plan/file.h) again, from its graphs and for its targets; other plans are returned as they are. Error (version) without a compiler.
std::shared_ptr<const plan::Plan> current(std::shared_ptr<const plan::Plan>);

// The plan or, for a GPU without a program in it, a plan compiled from its graph.
std::shared_ptr<const plan::Plan> plan_for(std::shared_ptr<const plan::Plan>, std::string_view device);

}  // namespace ingot::api
