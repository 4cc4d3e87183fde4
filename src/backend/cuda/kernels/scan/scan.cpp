#include "backend/cuda/kernels/scan/scan.h"

#include "backend/cuda/kernels/scan/run/scan_args.h"
#include "backend/cuda/kernels/scan/run/tuning.h"
#include "backend/cuda/kernels/scan/scan.cuh.h"
#include "base/error.h"

namespace ingot::kernels {

namespace {

constexpr std::string_view parameters_text = INGOT_CUDA_TEXT_OF(INGOT_CUDA_SCAN);

}  // namespace

std::string_view scan_cuda_text() {
  static const std::string all =
      std::string(parameters_text) +
      fmt::format("\nconstexpr int scan_threads = {}, scan_items = {}, scan_column_threads = {};\n", scan_tuning::threads, scan_tuning::items, scan_tuning::column_threads) +
      std::string(scan_cuh);
  return all;
}

CudaPart scan_cuda_part(const ScanArgs& args, ir::DType type) {
  constexpr std::string_view kinds[] = {"combine_sum", "combine_prod", "combine_max", "combine_min", "combine_logsumexp"};
  CudaPart out;
  out.name = scan_cuda_name(args.kind, type);
  std::string of = fmt::format("<{}, {}>", cuda_type(type), kinds[static_cast<size_t>(args.kind)]);
  auto kernel = [&](std::string_view suffix, int threads, const std::string& call) {
    out.kernels.push_back(fmt::format("{}_{}", out.name, suffix));
    out.text += fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}(const __grid_constant__ ScanCudaParameters p) {{\n  after_others();\n  {};\n}}\n", threads,
                            out.kernels.back(), call);
  };
  kernel("lines", scan_tuning::threads, fmt::format("scan_a_line{}(p)", of));
  kernel("columns", scan_tuning::column_threads, fmt::format("scan_columns{}(p)", of));
  kernel("blocks", scan_tuning::threads, fmt::format("scan_a_chunk{}(p, true)", of));
  kernel("totals", scan_tuning::threads, fmt::format("scan_a_chunk{}(p, false)", of));
  return out;
}

}  // namespace ingot::kernels
