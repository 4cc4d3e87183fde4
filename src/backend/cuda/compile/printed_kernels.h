// Kernels as they are printed, before they have a name: @ stands for the name and what separates it from a suffix. One text serves a step alone and as a part of another.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "backend/offer.h"

namespace ingot::backend::cuda {

// Whose parameters a kernel takes.
enum class ParametersOf : uint8_t {
  step,  // one step's
  rows,  // those of steps that run side by side: each has a row of blocks
};

struct PrintedKernels {
  struct Kernel {
    std::string suffix, attributes, body;  // "0", "__launch_bounds__(128)"; `body` reads the parameters as `p`
    std::vector<CodeUnit::Library> libraries = {};
    std::string parameters = "@P";         // their type
  };
  std::string shared;                      // what comes before the kernels: their parameters, functions
  std::vector<Kernel> kernels;

  // A prefix and a hash of the text, so that equal texts have equal names.
  std::string name(std::string_view prefix) const;
  // All kernels as one unit; kernel `k` as a unit, which is compiled with others.
  CodeUnit unit(const std::string& name, ParametersOf) const;
  CodeUnit unit(const std::string& name, ParametersOf, size_t k) const;
};

// The name of the kernels that take the parameters of several steps.
std::string name_of(const std::string& name, ParametersOf);

}  // namespace ingot::backend::cuda
