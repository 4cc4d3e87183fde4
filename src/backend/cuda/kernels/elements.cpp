#include "backend/cuda/kernels/elements.h"

#include "backend/cuda/kernels/axes.cuh.h"
#include "backend/cuda/kernels/elements.cuh.h"
#include "backend/cuda/kernels/run/axes.h"

namespace ingot::kernels {

namespace {

constexpr std::string_view axes_text = INGOT_CUDA_TEXT_OF(INGOT_CUDA_AXES);

}  // namespace

std::string_view axes_cuda_text() {
  static const std::string all = std::string(axes_text) + "\n" + std::string(axes_cuh);
  return all;
}

std::string_view elements_cuda_text() { return elements_cuh; }

std::string_view cuda_type(ir::DType t) {
#define X(name, bytes, storage, torch) \
  if (t == ir::DType::name) return #name;
#include "ir/dtype.def"
#undef X
  return "";
}

}  // namespace ingot::kernels
