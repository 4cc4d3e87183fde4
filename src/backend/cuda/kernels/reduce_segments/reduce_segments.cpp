#include "backend/cuda/kernels/reduce_segments/reduce_segments.h"

#include "backend/cuda/kernels/reduce_segments/reduce_segments.cuh.h"
#include "backend/cuda/kernels/reduce_segments/run/reduce_segments_cuda_args.h"
#include "backend/cuda/kernels/reduce_segments/run/tuning.h"
#include "base/error.h"

namespace ingot::kernels {

namespace {

constexpr std::string_view parameters_text = INGOT_CUDA_TEXT_OF(INGOT_CUDA_SEGMENTS);

}  // namespace

std::string_view reduce_segments_cuda_text() {
  static const std::string all = std::string(parameters_text) +
                                 fmt::format("\nconstexpr int segments_threads = {}, segment_part = {};\n", reduce_segments_tuning::threads, reduce_segments_tuning::part_rows) +
                                 std::string(reduce_segments_cuh);
  return all;
}

CudaPart reduce_segments_cuda_part(const ReduceSegmentsArgs& args, ir::DType type) {
  constexpr std::string_view kinds[] = {"combine_sum", "combine_prod", "combine_min", "combine_max"};
  CudaPart out;
  out.name = reduce_segments_cuda_name(args, type);
  auto add = [&](std::string_view suffix, std::string_view call, int vector, std::string_view weights) {
    out.kernels.push_back(fmt::format("{}_{}{}", out.name, vector, suffix));
    out.text +=
        fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}(const __grid_constant__ SegmentsCudaParameters p) {{\n  after_others();\n  {}<{}, {}, {}, {}>(p);\n}}\n",
                    reduce_segments_tuning::threads, out.kernels.back(), call, cuda_type(type), vector, kinds[static_cast<size_t>(args.kind)], weights);
  };
  for (int vector : {1, 16 / static_cast<int>(ir::size_of(type))}) {
    add("", "reduce_segments", vector, args.weighted ? "weight_of_element" : "no_weights");
    if (args.weighted && vector > 1) add("_one", "reduce_segments", vector, "weight_of_load");
    add("_join", "join_parts", vector, "no_weights");
  }
  return out;
}

}  // namespace ingot::kernels
