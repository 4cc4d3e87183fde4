// Compiles one graph to one program, in three phases: storage (storage/), schedule (schedule/), emission (emission.cpp).
#pragma once
#include <string>
#include <vector>

#include "compile/schedule/schedule.h"

namespace ingot::compile {

struct CompiledFunction {
  StoragePlan storage;
  Schedule schedule;
};
CompiledFunction compile_function(const Context&);

// Appends the program to the function; the first program also sets symbols, bindings and checks. Returns its device code, not yet compiled. `timed` receives the
// steps that can be timed, with rivals and their code; the caller sets their targets and functions.
std::vector<backend::CodeUnit> emit(CompiledFunction, plan::Function&, std::vector<plan::TimedStep>* timed = nullptr);

}  // namespace ingot::compile
