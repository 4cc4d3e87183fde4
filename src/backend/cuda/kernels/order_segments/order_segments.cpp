#include "backend/cuda/kernels/order_segments/order_segments.h"

#include "backend/cuda/kernels/order_segments/order_segments.cuh.h"
#include "backend/cuda/kernels/order_segments/run/order_segments_cuda_args.h"
#include "backend/cuda/kernels/order_segments/run/tuning.h"
#include "base/error.h"

namespace ingot::kernels {

namespace {

constexpr std::string_view parameters_text = INGOT_CUDA_TEXT_OF(INGOT_CUDA_ORDER_SEGMENTS);

}  // namespace

std::string_view order_segments_cuda_text() {
  static const std::string all = std::string(parameters_text) +
                                 fmt::format("\nconstexpr int order_threads = {}, order_keys = {};\n", order_segments_tuning::threads, order_segments_tuning::keys) +
                                 std::string(order_segments_cuh);
  return all;
}

CudaPart order_segments_cuda_part() {
  CudaPart out;
  out.name = "order_segments";
  for (const auto& [name, call] : {std::pair{order_at_once_cuda_name, "order_at_once"}, std::pair{count_buckets_cuda_name, "count_buckets"},
                                   std::pair{split_in_buckets_cuda_name, "split_in_buckets"}, std::pair{order_buckets_cuda_name, "order_buckets"}}) {
    out.kernels.emplace_back(name);
    out.text += fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({}) {}(const __grid_constant__ OrderSegmentsParameters p) {{\n  wait_for_others();\n  let_next_start();\n  {}(p);\n}}\n",
        order_segments_tuning::threads, name, call);
  }
  return out;
}

}  // namespace ingot::kernels
