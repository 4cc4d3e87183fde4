// Offers products of bfloat16 of few terms and columns, whose result is only stored, by matrix registers.
#include "backend/cpu/kernels/conv/site.h"
#include "backend/cpu/kernels/matmul/site.h"

namespace ingot::backend::cpu {

void matmul_short_matrix_offers(const Site& site, const Settings& settings, Offers& out) {
  const auto s = stored_site(site, settings);
  if (s == nullptr || s->gemm->type != ir::DType::bf16 || !(s->gemm->a.strides.back() == ir::Dim(1))) return;
  offer_product("matmul_short_matrix", kernels::matmul::cost_of_short_matrix(s->sizes, cpu_of(settings)), s, site, settings, out);
}

}  // namespace ingot::backend::cpu
