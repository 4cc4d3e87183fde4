#include "backend/cuda/kernels/scatter/run/scatter_args.h"

#include "base/error.h"

namespace ingot::kernels {

bool scatters_at_once(ScatterArgs::Kind kind, ir::DType type) {
  return kind != ScatterArgs::Kind::set && kind != ScatterArgs::Kind::mul && (type == ir::DType::i32 || type == ir::DType::i64);
}

std::string scatter_cuda_name(ScatterArgs::Kind kind, ir::DType type) {
  constexpr std::string_view names[] = {"set", "add", "mul", "min", "max"};
  return fmt::format("scatter_{}_{}", names[static_cast<size_t>(kind)], ir::name_of(type));
}

}  // namespace ingot::kernels
