#include "backend/cuda/kernels/sort/run/sort_args.h"

#include "base/error.h"

namespace ingot::kernels {

std::string sort_cuda_name(ir::DType type) { return fmt::format("sort_{}", ir::name_of(type)); }

std::string sort_line_cuda_name(ir::DType type, const sort_cuda_tuning::Line& line) { return fmt::format("{}_line_{}", sort_cuda_name(type), line.threads * line.items); }

std::string sort_merge_cuda_name(size_t key_bytes) { return fmt::format("sort_merge_{}", key_bytes); }

}  // namespace ingot::kernels
