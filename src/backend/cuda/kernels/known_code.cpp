#include "backend/cuda/kernels/known_code.h"

#include <algorithm>

#include "backend/cuda/kernels/gemm/gemm.h"

namespace ingot::backend::cuda {

bool KnownCall::add(const StridedLayout& x, ir::DType type) {
  auto dims = known_sizes(x.dims), strides = known_sizes(x.strides);
  if (!dims || !strides) return false;
  numbers_.push_back(std::move(*dims));
  numbers_.push_back(std::move(*strides));
  types_.push_back(type);
  return true;
}

bool KnownCall::add(const ir::Dims& sizes) {
  auto values = known_sizes(sizes);
  if (values) sizes_ = std::move(*values);
  return values.has_value();
}

const std::vector<kernels::TensorRef>& KnownCall::operands() {
  refs_.clear();
  for (size_t i = 0; i < types_.size(); ++i) {
    const auto &dims = numbers_[2 * i], &strides = numbers_[2 * i + 1];
    refs_.push_back({nullptr, types_[i], static_cast<int>(dims.size()), dims.data(), strides.data()});
  }
  return refs_;
}

kernels::Call KnownCall::call(const void* constants) {
  kernels::Call out;
  out.operands = operands();
  out.sizes = sizes_;
  out.constants = constants;
  return out;
}

void add_kernels(const kernels::CudaLaunches& launches, const Site& site, std::set<std::string>& used) {
  for (const kernels::CudaLaunch& l : launches.list) used.insert(l.kernel);
  if (are_aligned(site, launches.aligned)) return;
  for (const kernels::CudaLaunch& l : launches.any) used.insert(l.kernel);
}

}  // namespace ingot::backend::cuda
