#include "backend/cuda/kernels/scatter/run/scatter_args.h"

#include "base/error.h"

namespace ingot::kernels {

ScatterWay scatter_way(ScatterArgs::Kind kind, ir::DType type) {
  using Kind = ScatterArgs::Kind;
  const bool is_integer = type == ir::DType::i32 || type == ir::DType::i64, is_wide = type == ir::DType::f32 || type == ir::DType::f64;
  if (kind == Kind::add && ir::is_float(type) && type != ir::DType::f64) return ScatterWay::in_units;
  if (kind == Kind::add && is_integer) return ScatterWay::at_once;
  return (kind == Kind::min || kind == Kind::max) && (is_integer || is_wide) ? ScatterWay::at_once : ScatterWay::sorted;
}

bool has_scatter_lines(ScatterArgs::Kind kind, ir::DType type) { return kind == ScatterArgs::Kind::add && ir::is_float(type); }

std::string scatter_cuda_name(ScatterArgs::Kind kind, ir::DType type) {
  constexpr std::string_view names[] = {"set", "add", "mul", "min", "max"};
  return fmt::format("scatter_{}_{}", names[static_cast<size_t>(kind)], ir::name_of(type));
}

std::string scatter_at_once_cuda_name(ScatterArgs::Kind kind, ir::DType type, size_t indices) { return fmt::format("{}_by_{}", scatter_cuda_name(kind, type), indices); }

}  // namespace ingot::kernels
