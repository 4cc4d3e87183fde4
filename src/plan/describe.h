// A plan as JSON, for people and for Python.
#pragma once
#include <string>

#include "plan/plan.h"

namespace ingot::plan {

std::string describe(const Plan&);
// A size expression as text: "B*S", "floordiv(S, 2)".
std::string size_text(const Function&, SizeRef);

}  // namespace ingot::plan
