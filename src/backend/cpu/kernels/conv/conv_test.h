// Which kernels of the convolution family a test ran.
#pragma once
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>

#include "backend/cpu/kernels/kernel_test.h"

namespace ingot::kernels {

// Calls run(kernel) for each kernel of the family; it returns false if the kernel cannot compute the case. Counts the others.
class ConvKernels {
 public:
  template <class Run>
  void each(Run run) {
    for (std::string_view kernel : kernels_of("conv_")) ran_[std::string(kernel)] += run(kernel);
  }
  int ran(const std::string& kernel) const { return ran_.at(kernel); }

 private:
  std::map<std::string, int> ran_;
};

}  // namespace ingot::kernels
