#include "backend/reference/compile/offers.h"
#include "backend/reference/kernels/matmul/run/matmul_args.h"
#include "kernels/run/index_map.h"

namespace ingot::backend::reference {

namespace {

// True for whole numbers of which some along K share a scale.
bool is_grouped(const ir::Encoding& e) { return e.bits == 8 * ir::size_of(e.storage) && !e.panels && e.block && e.block->k > 0 && e.block->n == 1; }

std::optional<Refusal> obstacle(const Gemm& g) {
  constexpr std::string_view name = "sums";
  if (g.prologue) return Refusal{name, Obstacle::a, "rows are read from memory"};
  if (g.b.size() > 1 || g.packed) return Refusal{name, Obstacle::b, "B is one matrix, not packed"};
  const bool grouped = g.encoding && is_grouped(*g.encoding);
  if (g.encoding && !((grouped || is_scaled_by_column(*g.encoding)) && ir::is_float(g.type)))
    return Refusal{name, Obstacle::b, "numbers of B have a scale for each column or for elements of one, or none"};
  if (grouped != (g.scale != nullptr) || (grouped && g.encoding->zero) != (g.zero != nullptr)) return Refusal{name, Obstacle::b, "scales and zeros of groups are operands"};
  if ((grouped || g.row_ends != nullptr) && (g.map || g.batch_rank > 0)) return Refusal{name, Obstacle::a, "with groups or experts, A is one matrix"};
  if (g.gated) return Refusal{name, Obstacle::body, "the body sees one column at a time"};
  if (g.batch_rank + 2 > kernels::max_rank) return Refusal{name, Obstacle::types, "too many axes"};
  if (!g.map) return std::nullopt;
  std::vector<ir::Dim> ignored;
  if (g.map->axes.size() > kernels::IndexMap::max_axes || g.map->dims.size() > kernels::max_rank) return Refusal{name, Obstacle::a, "the map has too many axes"};
  if (!map_steps(*g.map, ignored)) return Refusal{name, Obstacle::a, "an index goes backwards"};
  return std::nullopt;
}

EmittedStep emit_gemm(const Gemm& g, const FusedBody& body) {
  EmittedStep step{"matmul", {}, {}};
  MatmulConstants args{static_cast<uint8_t>(g.batch_rank)};
  if (g.map) {
    args.m = static_cast<uint8_t>(g.m_rank);
    args.k = static_cast<uint8_t>(g.map->dims.size() - g.batch_rank - g.m_rank);
    args.rank = static_cast<uint8_t>(g.map->axes.size());
    args.steps = *map_steps(*g.map, step.sizes);
  }
  if (g.scale != nullptr) args.group = g.encoding->block->k;
  args.zeros = g.zero != nullptr;
  args.ragged = g.row_ends != nullptr;
  FieldWriter constants;
  matmul_fields(constants, args);
  write_body(body, constants, step.sizes);
  step.constants = std::move(constants.out);
  return step;
}

}  // namespace

void matmul_offers(const Site& site, Offers& out) {
  const auto g = gemm_of(site);
  if (g == nullptr) return;
  if (auto refusal = obstacle(*g)) return out.refusals.push_back(std::move(*refusal));
  out.offers.push_back({.implementation = "sums", .wishes = {channels_innermost, even_rows}, .emit = [g, body = site.body] { return emit_gemm(*g, *body); }});
}

}  // namespace ingot::backend::reference
