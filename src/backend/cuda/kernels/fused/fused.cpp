#include <algorithm>

#include "backend/cuda/compile/element_text.h"
#include "backend/cuda/compile/fused_text.h"
#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/concurrent/part.h"
#include "backend/cuda/kernels/fused/run/fused_args.h"
#include "backend/cuda/kernels/fused/run/tuning.h"
#include "backend/cuda/kernels/gemm/gemm.h"

namespace ingot::backend::cuda {

namespace {

// True for GEMMs of so few elements that launches take most of their time, such as those of squeeze-and-excitation. As matrices they need two launches: parts of K
// and their sum, or the library and a step for the epilogue, as their columns are often no multiple of 8.
bool is_small(const Site& site, const Gemm& g, const FusedBody& body) {
  using namespace kernels::fused_cuda_tuning;
  const bool plain_a = is_placed(g.a) && !g.map && !g.prologue, plain_b = g.b.size() == 1 && !g.encoding && !g.packed && g.row_ends == nullptr;
  if (!is_half(g.type) || !plain_a || !plain_b) return false;
  if (g.gated || g.batch_rank > 0 || !is_of_elements(body)) return false;
  const auto m = site.usual(g.a.dims[0]), largest = site.largest(g.a.dims[0]), n = g.b[0].dims[1].constant(), k = g.a.dims[1].constant();
  const bool known = m && largest && n && k;
  if (!known || *m < 1 || *m > small_rows || *largest > max_small_rows || std::min(*n, *k) > narrow) return false;
  // One row is read fast by its own kernel, if its length and number of columns are whole vectors.
  if (*largest == 1 && *n % 8 == 0 && *k % 8 == 0) return false;
  return *m * *n * *k <= small_products && is(g.a.strides[1], 1) && is(g.b[0].strides[0], 1);
}

EmittedStep step_of(Emitted code, const FusedBody& body) {
  EmittedStep step{"fused", std::move(code.arguments), std::move(code.sizes)};
  step.sizes.insert(step.sizes.end(), body.outer.begin(), body.outer.end());
  step.sizes.insert(step.sizes.end(), body.row.begin(), body.row.end());
  step.code.push_back(std::move(code.code));
  return step;
}

// True for bodies that reduce rows, of so few bytes that a launch saved counts.
bool may_join(const Site& site) {
  const FusedBody& b = *site.body;
  if (std::none_of(b.code.begin(), b.code.end(), [](const Instruction& i) { return i.kind == Instruction::Kind::reduce; })) return false;
  double bytes = 0;
  for (size_t k = 0; k < b.operands.size(); ++k) {
    double elements = 1;
    for (const ir::Dim& d : site.operands[k].layout.dims) elements *= static_cast<double>(site.usual(d).value_or(INT64_MAX));
    bytes += elements * static_cast<double>(ir::size_of(b.operands[k]));
  }
  return bytes <= kernels::fused_cuda_tuning::joined_bytes;
}

std::vector<bool> aligned(const Site& site) {
  std::vector<bool> out;
  for (const Operand& o : site.operands) out.push_back(o.aligned);
  return out;
}

// The step for any number of rows, in which it can run together with others; empty if it keeps rows in shared memory.
std::any part_for_any_rows(const Site& site) {
  EmittedStep step = step_of(emit(*site.body, site.body_layouts(), {}, aligned(site), ParametersOf::rows), *site.body);
  const kernels::FusedCudaArgs args = kernels::parse_fused_cuda(step.constants);
  if (std::any_of(args.variants.begin(), args.variants.end(), [](const kernels::FusedCudaArgs::Variant& v) { return v.kept > 0; })) return {};
  return as_part({args.name, [step = std::move(step)] { return step; }});
}

}  // namespace

void fused_offers(const Site& site, const Target&, const Settings&, Offers& out) {
  if (const auto g = gemm_of(site); g != nullptr && site.body != nullptr && is_small(site, *g, *site.body)) {
    out.offers.push_back({.implementation = "sums", .wishes = {channels_innermost}});
  }
  if (!std::holds_alternative<Fused>(site.kernel)) return;
  out.offers.push_back({.implementation = "text", .emit = [&site] {
                          EmittedStep step = step_of(emit(*site.body, site.body_layouts(), {}, aligned(site)), *site.body);
                          if (may_join(site)) step.as_part = part_for_any_rows(site);
                          return step;
                        }});
}

}  // namespace ingot::backend::cuda
