#include "kernels/matmul/matmul_map_cuda_args.h"

#include <algorithm>

#include "base/error.h"
#include "base/fields.h"

namespace ingot::kernels {

std::vector<std::byte> serialise(const MatmulMapCudaArgs& args) {
  FieldWriter w;
  w.all(args.map.rank, args.map.m_rank, args.map.k_rank);
  for (int64_t step : args.map.steps) w.field(step);
  std::vector<std::byte> product = serialise(args.product);
  w.out.insert(w.out.end(), product.begin(), product.end());
  return std::move(w.out);
}

MatmulMapCudaArgs parse_matmul_map_cuda(std::span<const std::byte> bytes) {
  FieldReader r{bytes, "the arguments of a matmul_map step"};
  MatmulMapCudaArgs args;
  r.all(args.map.rank, args.map.m_rank, args.map.k_rank);
  auto possible = [](uint8_t rank) { return rank >= 1 && rank <= MatmulMap::max_rank; };
  bool good = possible(args.map.rank) && possible(args.map.m_rank) && possible(args.map.k_rank);
  if (good) {
    args.map.steps.resize(size_t{args.map.rank} * (args.map.m_rank + args.map.k_rank));
    for (int64_t& step : args.map.steps) r.field(step);
    good = std::all_of(args.map.steps.begin(), args.map.steps.end(), [](int64_t step) { return step >= 0 && step <= INT32_MAX; });
  }
  if (good) args.product = parse_matmul_cuda(r.in);
  if (!good || args.product.batch_rank != 0) fail(Code::format, "the arguments of a matmul_map step are damaged");
  return args;
}

std::string matmul_map_cuda_name(ir::DType type) { return fmt::format("matmul_map_{}", ir::name_of(type)); }

}  // namespace ingot::kernels
