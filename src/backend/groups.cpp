#include "backend/groups.h"

namespace ingot::backend {

kernels::Groups groups_of(const Gemm& g) {
  if (!g.encoding || g.scale == nullptr) return {};
  const bool fits_4_bits = g.encoding->storage == ir::DType::i8 && g.encoding->needed <= 4;
  if (!fits_4_bits || !g.encoding->block || g.encoding->block->n != 1) return {};
  const int64_t size = g.encoding->block->k;
  if (size < 1 || size > UINT8_MAX || g.encoding->zero != (g.zero != nullptr) || (g.zero != nullptr && g.zero->type != ir::DType::i8)) return {};
  const kernels::Groups groups{static_cast<uint8_t>(size), static_cast<uint8_t>(g.scale->type == ir::DType::bf16 ? 2 : 4), g.encoding->zero};
  const ir::DType type = g.scale->type;
  return groups.valid() && (type == ir::DType::f32 || type == ir::DType::f16 || type == ir::DType::bf16) ? groups : kernels::Groups{};
}

}  // namespace ingot::backend
