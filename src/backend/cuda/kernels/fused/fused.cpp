#include <algorithm>

#include "backend/cuda/compile/element_text.h"
#include "backend/cuda/compile/fused_text.h"
#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/fused/run/fused_args.h"
#include "backend/cuda/kernels/gemm.h"

namespace ingot::backend::cuda {

namespace {

// True for GEMMs of so few elements that launches take most of their time, such as those of squeeze-and-excitation. As matrices they need two launches: parts of K
// and their sum, or the library and a step for the epilogue, as their columns are often no multiple of 8.
bool is_small(const Site& site, const Gemm& g, const FusedBody& body) {
  constexpr int64_t usual_rows = 64, most_rows = 512, most_products = int64_t{1} << 21, narrow = 64;
  if (!is_half(g.type) || !is_placed(g.a) || g.map || g.prologue || g.gated || g.encoding || g.packed || g.b.size() > 1 || g.batch_rank > 0 || !is_of_elements(body)) return false;
  const auto m = site.usual(g.a.dims[0]), most = site.largest(g.a.dims[0]), n = g.b[0].dims[1].constant(), k = g.a.dims[1].constant();
  if (!m || !most || !n || !k || *m < 1 || *m > usual_rows || *most > most_rows || std::min(*n, *k) > narrow) return false;
  // One row is read fast by its own kernel, if its length and number of columns are whole vectors.
  if (*most == 1 && *n % 8 == 0 && *k % 8 == 0) return false;
  return *m * *n * *k <= most_products && is(g.a.strides[1], 1) && is(g.b[0].strides[0], 1);
}

}  // namespace

void fused_offers(const Site& site, const Target&, const Settings&, Offers& out) {
  if (const auto* g = std::get_if<Gemm>(&site.kernel); g != nullptr && site.body != nullptr && is_small(site, *g, *site.body)) {
    out.offers.push_back({.implementation = "sums", .by_sums = true});
  }
  if (!std::holds_alternative<Fused>(site.kernel)) return;
  out.offers.push_back({.implementation = "text", .emit = [&site] {
                          const FusedBody& body = *site.body;
                          Emitted code = emit(body, site.operands);
                          EmittedStep step{"fused", std::move(code.arguments), std::move(code.sizes)};
                          step.sizes.insert(step.sizes.end(), body.outer.begin(), body.outer.end());
                          step.sizes.insert(step.sizes.end(), body.row.begin(), body.row.end());
                          auto kernels = numbered(code.name, kernels::parse_fused_cuda(step.constants).variants.size());
                          step.code.push_back({std::move(code.name), std::move(code.text), std::move(kernels)});
                          step.elementwise = 0;
                          return step;
                        }});
}

}  // namespace ingot::backend::cuda
