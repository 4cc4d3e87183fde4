// Offers products of experts: rows of each expert times panels of its matrix, then the epilogue on each block of rows.
#include "backend/cpu/compile/byte_code.h"
#include "backend/cpu/compile/offers.h"
#include "backend/cpu/kernels/matmul/run/cost.h"
#include "backend/cpu/kernels/ragged/run/ragged_args.h"

namespace ingot::backend::cpu {

namespace {

EmittedStep emit_ragged(const Gemm& g, const FusedBody& body, bool in_order) {
  Emitted code = emit(body);
  kernels::MatmulArgs args;
  args.packed = g.packed.has_value();
  args.in_order = in_order;
  args.body = code.code;
  EmittedStep step{"ragged", kernels::serialise(args), {g.a.dims[0], body.row.back(), g.a.dims[1]}};
  step.sizes.insert(step.sizes.end(), code.sizes.begin(), code.sizes.end());
  return step;
}

// Panels in the weights' own type. Each expert's are whole.
std::optional<Packing> packing_of(const Gemm& g) {
  if (g.packed) return Packing{"ragged_pack", kernels::panels_of(g.type)};
  const ir::Dims& b = g.b[0].dims;
  const bool known = std::all_of(b.begin(), b.end(), [](const ir::Dim& d) { return d.is_constant(); });
  if (!g.constant || !ir::is_float(g.type) || !known || b[1].value() % kernels::panel_depth(g.type) != 0) return std::nullopt;
  return Packing{"ragged_pack", kernels::panels_of(g.type)};
}

}  // namespace

void ragged_offers(const Site& site, const Settings& settings, Offers& out) {
  const auto g = gemm_of(site);
  if (g == nullptr || g->row_ends == nullptr) return;
  auto refuse = [&](Obstacle obstacle, const char* reason) { out.refusals.push_back({"ragged", obstacle, reason}); };
  if (g->prologue || g->map || g->batch_rank > 0) return refuse(Obstacle::a, "A is a matrix in memory");
  if (g->scale != nullptr || g->encoding || g->b.size() > 1) return refuse(Obstacle::b, "B is a matrix of A's type for each expert");
  if (g->gated) return refuse(Obstacle::body, "the body sees one column at a time");
  auto usual = [&](const ir::Dim& d) { return static_cast<double>(site.usual(d).value_or(1)); };
  const double products = usual(g->a.dims[0]) * usual(g->a.dims[1]) * usual(g->b[0].dims.back());
  out.offers.push_back({.implementation = "ragged",
                        .cost = products / kernels::matmul::peak_of(settings.machine, g->type),
                        .wishes = {channels_innermost, contiguous_rows},
                        .packing = packing_of(*g),
                        .emit = [g, body = site.body, in_order = settings.deterministic == Deterministic::batch] { return emit_ragged(*g, *body, in_order); }});
}

}  // namespace ingot::backend::cpu
