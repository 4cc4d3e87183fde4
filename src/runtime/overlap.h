// Memory that a run writes must not overlap another binding, nor itself.
#pragma once
#include <vector>

#include "base/function_ref.h"
#include "runtime/program.h"

namespace ingot::runtime {

class OverlapCheck {
 public:
  // Error (invalid_input) names the bindings. `tensor`: of each binding.
  void operator()(const plan::Function &, FunctionRef<const HostTensor &(size_t binding)> tensor);

 private:
  // The memory of a binding, from its first to its last element.
  struct Span {
    const std::byte *begin, *end;
    size_t binding;
    bool written;
  };
  std::vector<Span> spans_;  // kept between calls, which allocate nothing
};

}  // namespace ingot::runtime
