#include <algorithm>

#include "backend/cpu/compile/byte_code.h"
#include "backend/cpu/compile/offers.h"

namespace ingot::backend::cpu {

namespace {

// True if the distance between a row's elements depends on open sizes, as when the batch is innermost: the fastest order of sums would depend on them too.
bool has_open_strides(const FusedBody& body, const std::vector<StridedLayout>& operands) {
  for (const Instruction& i : body.code) {
    if (i.kind != Instruction::Kind::load || i.operand >= operands.size() || !is_placed(operands[i.operand])) continue;
    const ir::Dims& strides = operands[i.operand].strides;
    const size_t first = std::min(body.outer.size(), strides.size());
    if (!std::all_of(strides.begin() + static_cast<std::ptrdiff_t>(first), strides.end(), [](const ir::Dim& s) { return s.is_constant(); })) return true;
  }
  return false;
}

// One column or one row of floats, as of a product with a vector: panels would fill a column up to 32, and a row reads each panel once. A row of f16 needs a B whose columns are
// contiguous; otherwise half types are widened faster in panels.
bool is_vector(const Gemm& g, const FusedBody& body) {
  const bool plain_a = is_placed(g.a) && !g.map && !g.prologue, plain_b = g.b.size() == 1 && !g.encoding && !g.packed && !g.constant && g.row_ends == nullptr;
  if (!ir::is_float(g.type) || !plain_a || !plain_b || g.gated) return false;
  const bool reduces = std::any_of(body.code.begin(), body.code.end(), [](const Instruction& i) { return i.kind == Instruction::Kind::reduce; });
  const bool columns = g.type == ir::DType::f16 && is_placed(g.b[0]) && g.b[0].strides[0] == ir::Dim(1);
  const bool row = g.a.dims[g.batch_rank] == ir::Dim(1) && (g.type == ir::DType::f32 || g.type == ir::DType::f64 || columns);
  return !reduces && (row || g.b[0].dims.back() == ir::Dim(1));
}

}  // namespace

void fused_offers(const Site& site, const Settings& settings, Offers& out) {
  if (const auto g = gemm_of(site); g != nullptr && site.body != nullptr && is_vector(*g, *site.body)) {
    out.offers.push_back({.implementation = "sums", .wishes = {channels_innermost}});
  }
  if (!std::holds_alternative<Fused>(site.kernel)) return;
  const bool in_order = settings.deterministic == Deterministic::batch && has_open_strides(*site.body, site.body_layouts());
  out.offers.push_back({.implementation = "byte code", .emit = [body = site.body, in_order] {
                          Emitted code = emit(*body, in_order);
                          EmittedStep step{"fused", std::move(code.code), std::move(code.sizes)};
                          step.sizes.insert(step.sizes.end(), body->outer.begin(), body->outer.end());
                          step.sizes.insert(step.sizes.end(), body->row.begin(), body->row.end());
                          return step;
                        }});
}

}  // namespace ingot::backend::cpu
