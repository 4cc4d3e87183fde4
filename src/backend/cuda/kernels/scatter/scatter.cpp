#include "backend/cuda/kernels/scatter/scatter.h"

#include "backend/cuda/kernels/scatter/run/scatter_args.h"
#include "backend/cuda/kernels/scatter/scatter.cuh.h"
#include "base/error.h"

namespace ingot::kernels {

namespace {

constexpr std::string_view parameters_text = INGOT_CUDA_TEXT_OF(INGOT_CUDA_SCATTER);

CudaPart part_of(const std::string& name) { return {name, {}, {}}; }

void add_kernel(CudaPart& part, const std::string& name, const std::string& call) {
  part.kernels.push_back(name);
  part.text += fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}(const __grid_constant__ ScatterCudaParameters p) {{ {}(p); }}\n", scatter_threads, name, call);
}

}  // namespace

std::string_view scatter_cuda_text() {
  static const std::string all = std::string(parameters_text) + fmt::format("\nconstexpr int scatter_threads = {};\n", scatter_threads) + std::string(scatter_cuh);
  return all;
}

std::vector<CudaPart> scatter_cuda_parts(const ScatterArgs& args, ir::DType type) {
  CudaPart keys = part_of(scatter_keys_cuda_name), out = part_of(scatter_cuda_name(args.kind, type));
  add_kernel(keys, keys.name, "make_keys");
  if (args.kind == ScatterArgs::Kind::set) {
    add_kernel(out, out.name, fmt::format("scatter_set<{}>", cuda_type(type)));
    return {keys, out};
  }
  constexpr std::string_view kinds[] = {"", "combine_sum", "combine_prod", "combine_min", "combine_max"};
  if (scatters_at_once(args.kind, type)) {
    add_kernel(out, out.name, fmt::format("scatter_at_once<{}, {}>", cuda_type(type), kinds[static_cast<size_t>(args.kind)]));
    return {out};
  }
  for (const char* which : {"chunks", "rest"}) {
    add_kernel(out, fmt::format("{}_{}", out.name, which), fmt::format("scatter_{}<{}, {}>", which, cuda_type(type), kinds[static_cast<size_t>(args.kind)]));
  }
  return {keys, out};
}

}  // namespace ingot::kernels
