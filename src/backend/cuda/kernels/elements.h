// Texts shared by the kernels without a body: iteration over axes, elements as numbers (double or i64, as on the CPU), and how numbers are combined.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ir/dtype.h"

namespace ingot::kernels {

// Comes after the backend's prelude and before the text of such kernels.
std::string_view axes_cuda_text();
std::string_view elements_cuda_text();
// The type's name in the text: "f32".
std::string_view cuda_type(ir::DType);

// Kernels that are compiled together. Parts of equal name have equal text.
struct CudaPart {
  std::string name;
  std::string text;
  std::vector<std::string> kernels;
};

}  // namespace ingot::kernels
