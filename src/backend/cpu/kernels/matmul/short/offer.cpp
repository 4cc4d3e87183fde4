// Offers products of float32 and float64 of few terms and columns, whose result is only stored, without panels.
#include "backend/cpu/kernels/conv/site.h"
#include "backend/cpu/kernels/matmul/site.h"

namespace ingot::backend::cpu {

void matmul_short_offers(const Site& site, const Settings& settings, Offers& out) {
  const auto s = stored_site(site, settings);
  if (s == nullptr || ir::size_of(s->gemm->type) < sizeof(float)) return;
  const StridedLayout& b = s->gemm->b[0];
  if (!(b.strides.back() == ir::Dim(1)) && !(b.strides[b.strides.size() - 2] == ir::Dim(1))) return;
  offer_product("matmul_short", kernels::matmul::cost_of_short(s->sizes, cpu_of(settings)), s, site, settings, out);
}

}  // namespace ingot::backend::cpu
