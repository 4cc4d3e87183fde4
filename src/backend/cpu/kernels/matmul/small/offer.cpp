// Offers products of many small matrices whose result is only stored, without panels.
#include <algorithm>

#include "backend/cpu/kernels/conv/site.h"
#include "backend/cpu/kernels/matmul/run/tuning.h"
#include "backend/cpu/kernels/matmul/site.h"

namespace ingot::backend::cpu {

namespace {

bool may_be_small(const ir::Dim& d) { return d.constant().value_or(0) <= kernels::matmul::tuning::max_small; }

// Half types are widened where the products of an axis lie one after another.
bool is_solid(const StridedLayout& x, size_t batch_rank) {
  const size_t last = x.dims.size() - 1;
  return x.strides[last] == ir::Dim(1) && x.strides[last - 1] == x.dims[last] && x.strides[batch_rank - 1] == x.dims[last] * x.dims[last - 1];
}

// As the kernel reads operands (run/kernel.cpp).
bool fits(const Site& site, const ProductSite& s) {
  const Gemm& g = *s.gemm;
  const StridedLayout &b = g.b[0], &to = site.body_operand(site.body->stores[0].operand);
  if (site.body->operands[site.body->stores[0].operand] != g.type || !(b.strides.back() == ir::Dim(1)) || !(to.strides.back() == ir::Dim(1))) return false;
  return g.type == ir::DType::f32 || (is_solid(g.a, g.batch_rank) && is_solid(b, g.batch_rank) && is_solid(to, g.batch_rank));
}

}  // namespace

void matmul_small_offers(const Site& site, const Settings& settings, Offers& out) {
  const auto* g = std::get_if<GemmAttributes>(&site.kernel);
  if (g == nullptr || is_sketch(site)) return;
  const bool plain = !g->map && !g->packed && g->batch_rank > 0, of_floats = ir::is_float(g->type) && ir::size_of(g->type) <= sizeof(float);
  if (!plain || !of_floats) return;
  if (settings.deterministic == Deterministic::batch || site.body == nullptr || !only_stores(*site.body)) return;
  const auto s = product_site(site, settings);
  if (s == nullptr || s->gemm->encoding) return;
  const ir::Dim &m = s->gemm->a.dims[g->batch_rank], &k = s->gemm->a.dims.back(), &n = site.body->row.back();
  const bool is_small = may_be_small(m) && may_be_small(n) && may_be_small(k), are_dots = n == ir::Dim(1) && !(k == ir::Dim(1));
  if (!is_small || are_dots || !fits(site, *s)) return;
  offer_product("matmul_small", kernels::matmul::cost_of_small(s->sizes, cpu_of(settings)), s, site, settings, out);
}

}  // namespace ingot::backend::cpu
