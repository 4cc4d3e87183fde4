// A plan as JSON and its steps as text.
#pragma once
#include <string>

#include "plan/plan.h"

namespace ingot::plan {

std::string describe(const Plan&);
// Every program: its buffers, and its steps with the layouts of their operands, their sizes and a hash of their constants.
std::string print_programs(const Plan&);
std::string print_programs(const Plan&, size_t target);
// Where in the model a step comes from: "model.py:12 in encoder.layer.0"; empty if unknown.
std::string where(const Plan&, const Step&);
// A size expression as text: "B*S", "floordiv(S, 2)".
std::string size_text(const Function&, SizeRef);

}  // namespace ingot::plan
