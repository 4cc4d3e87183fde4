#include "backend/cuda/kernels/scatter/scatter.h"

#include "backend/cuda/kernels/scatter/run/scatter_args.h"
#include "backend/cuda/kernels/scatter/scatter.cuh.h"
#include "backend/cuda/kernels/scatter/scatter_at_once.cuh.h"
#include "backend/cuda/kernels/scatter/scatter_lines.cuh.h"
#include "base/error.h"

namespace ingot::kernels {

namespace {

constexpr std::string_view parameters_text = INGOT_CUDA_TEXT_OF(INGOT_CUDA_SCATTER), at_once_parameters_text = INGOT_CUDA_TEXT_OF(INGOT_CUDA_SCATTER_AT_ONCE);
constexpr std::string_view kinds[] = {"", "combine_sum", "combine_prod", "combine_min", "combine_max"};

CudaPart part_of(const std::string& name) { return {name, {}, {}}; }

void add_kernel(CudaPart& part, const std::string& name, std::string_view parameters, int threads, const std::string& call) {
  part.kernels.push_back(name);
  part.text +=
      fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}(const __grid_constant__ {} p) {{\n  after_others();\n  {}(p);\n}}\n", threads, name, parameters, call);
}

void add_sorted(CudaPart& part, const std::string& name, const std::string& call) { add_kernel(part, name, "ScatterCudaParameters", scatter_cuda_tuning::threads, call); }

std::vector<CudaPart> sorted_parts(const ScatterArgs& args, ir::DType type) {
  CudaPart keys = part_of(scatter_keys_cuda_name), out = part_of(scatter_cuda_name(args.kind, type));
  add_sorted(keys, keys.name, "make_keys");
  if (args.kind == ScatterArgs::Kind::set) {
    add_sorted(out, out.name, fmt::format("scatter_set<{}>", cuda_type(type)));
    add_sorted(out, out.name + "_few", fmt::format("scatter_set_few<{}>", cuda_type(type)));
    return {keys, out};
  }
  for (const char* which : {"chunks", "rest"}) {
    add_sorted(out, fmt::format("{}_{}", out.name, which), fmt::format("scatter_{}<{}, {}>", which, cuda_type(type), kinds[static_cast<size_t>(args.kind)]));
  }
  return {keys, out};
}

}  // namespace

std::string_view scatter_cuda_text() {
  static const std::string all = std::string(parameters_text) + fmt::format("\nconstexpr int scatter_threads = {};\n", scatter_cuda_tuning::threads) + std::string(scatter_cuh);
  return all;
}

std::string_view scatter_at_once_cuda_text() {
  static const std::string all =
      std::string(at_once_parameters_text) +
      fmt::format("\nconstexpr int scatter_at_once_threads = {}, scatter_shared_places = {}, scatter_shared_threads = {}, scatter_line_places = {};\n",
                  scatter_cuda_tuning::threads, scatter_cuda_tuning::max_shared_destinations, scatter_cuda_tuning::shared_threads, scatter_cuda_tuning::max_line_places) +
      std::string(scatter_at_once_cuh) + std::string(scatter_lines_cuh);
  return all;
}

std::vector<CudaPart> scatter_cuda_parts(const ScatterArgs& args, ir::DType type) {
  if (scatter_way(args.kind, type) == ScatterWay::at_once) return {};
  return sorted_parts(args, type);
}

std::vector<CudaPart> scatter_at_once_cuda_parts(const ScatterArgs& args, ir::DType type) {
  const ScatterWay way = scatter_way(args.kind, type);
  if (way == ScatterWay::sorted && !has_scatter_lines(args.kind, type)) return {};
  CudaPart out = part_of(scatter_at_once_cuda_name(args.kind, type, args.axes.size()));
  auto add = [&](const std::string& name, int threads, const std::string& call) { add_kernel(out, name, "ScatterAtOnceParameters", threads, call); };
  auto add_both = [&](const std::string& name, std::string_view what, std::string_view kind) {
    const std::string of = fmt::format("<{}<{}>, {}, {}, {}>", what, cuda_type(type), cuda_type(type), kind, args.axes.size());
    add(name, scatter_cuda_tuning::threads, "scatter_at_once" + of);
    add(name + "_shared", scatter_cuda_tuning::shared_threads, "scatter_in_shared_memory" + of);
  };
  if (has_scatter_lines(args.kind, type)) add(out.name + "_lines", scatter_cuda_tuning::threads, fmt::format("scatter_lines<{}, {}>", cuda_type(type), args.axes.size()));
  if (way == ScatterWay::sorted) return {out};
  if (way == ScatterWay::at_once) {
    add_both(out.name, "Itself", kinds[static_cast<size_t>(args.kind)]);
    return {out};
  }
  add_both(out.name + "_exponents", "Exponent", "combine_max");
  add_both(out.name + "_units", "Units", "combine_sum");
  add(out.name + "_finish", scatter_cuda_tuning::threads, fmt::format("finish_sums<{}>", cuda_type(type)));
  CudaPart clear = part_of(scatter_clear_cuda_name);
  add_kernel(clear, clear.name, "ScatterAtOnceParameters", scatter_cuda_tuning::threads, "clear_sums");
  return {clear, out};
}

}  // namespace ingot::kernels
