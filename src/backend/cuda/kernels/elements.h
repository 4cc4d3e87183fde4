// Texts that the kernels without a body share: walks along axes; elements as numbers (double or i64, as on the CPU), and how these are combined.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ir/dtype.h"

namespace ingot::kernels {

// Behind the backend's prelude, before the text of such kernels.
std::string_view axes_cuda_text();
std::string_view elements_cuda_text();
// "f32": the type in the text.
std::string_view cuda_type(ir::DType);

// Kernels that are compiled together. Equal names have equal text.
struct CudaPart {
  std::string name;
  std::string text;
  std::vector<std::string> kernels;
};

}  // namespace ingot::kernels
