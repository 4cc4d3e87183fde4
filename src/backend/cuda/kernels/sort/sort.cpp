#include "backend/cuda/kernels/sort/sort.h"

#include "backend/cuda/kernels/sort/run/sort_args.h"
#include "backend/cuda/kernels/sort/sort.cuh.h"
#include "base/error.h"

namespace ingot::kernels {

namespace {

constexpr std::string_view parameters_text = INGOT_CUDA_TEXT_OF(INGOT_CUDA_SORT);

void add_kernel(CudaPart& part, const std::string& name, int threads, const std::string& call) {
  part.kernels.push_back(name);
  part.text +=
      fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}(const __grid_constant__ SortCudaParameters p) {{\n  after_others();\n  {}(p);\n}}\n", threads, name, call);
}

CudaPart merge_part(size_t key_bytes) {
  CudaPart out;
  out.name = sort_merge_cuda_name(key_bytes);
  add_kernel(out, out.name, sort_cuda_tuning::threads, fmt::format("merge_runs<{}>", key_bytes == 8 ? "u64" : "u32"));
  return out;
}

}  // namespace

std::string_view sort_cuda_text() {
  static const std::string all = std::string(parameters_text) +
                                 fmt::format("\nconstexpr int sort_threads = {}, sort_items = {};\n", sort_cuda_tuning::threads, sort_cuda_tuning::items) + std::string(sort_cuh);
  return all;
}

std::vector<CudaPart> sort_cuda_parts(ir::DType type) {
  CudaPart out;
  out.name = sort_cuda_name(type);
  std::string_view of = cuda_type(type);
  for (const sort_cuda_tuning::Line& line : sort_cuda_tuning::lines)
    add_kernel(out, sort_line_cuda_name(type, line), line.threads, fmt::format("sort_a_line<{}, {}, {}>", line.threads, line.items, of));
  add_kernel(out, out.name + "_tiles", sort_cuda_tuning::threads, fmt::format("sort_a_tile<Elements, {}>", of));
  add_kernel(out, out.name + "_take", sort_cuda_tuning::threads, fmt::format("take_in_order<{}>", of));
  return {out, merge_part(sort_key_bytes(type))};
}

std::vector<CudaPart> sort_keys_cuda_parts() {
  CudaPart out;
  out.name = sort_keys_cuda_name;
  add_kernel(out, out.name + "_tiles", sort_cuda_tuning::threads, "sort_a_tile<Ready, u64>");
  return {out, merge_part(8)};
}

}  // namespace ingot::kernels
