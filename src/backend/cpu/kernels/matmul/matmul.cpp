// Offers GEMM with B in panels; the epilogue is byte code that runs after each block of rows.
#include <algorithm>
#include <functional>
#include <numeric>

#include "backend/cpu/compile/byte_code.h"
#include "backend/cpu/compile/offers.h"
#include "backend/cpu/kernels/conv/site.h"
#include "backend/cpu/kernels/matmul/run/tile.h"
#include "backend/cpu/kernels/matmul/run/tuning.h"
#include "kernels/matmul/run/matmul_args.h"

namespace ingot::backend::cpu {

namespace {

namespace tuning = kernels::matmul::tuning;

struct Map {
  kernels::GemmMap map;
  std::vector<ir::Dim> sizes;  // the step's
};

// nullopt if the kernel cannot follow the map, or if each element would cost a cache line. In a first layer the few channels of an image may be interleaved.
std::optional<Map> map_of(const Gemm& p) {
  constexpr size_t max_rank = kernels::GemmMap::max_rank;
  const ir::AffineMap& from = *p.map;
  const size_t indices = from.dims.size(), k_rank = indices - p.batch_rank - p.m_rank;
  if (from.axes.size() > max_rank || p.m_rank > max_rank || k_rank > max_rank || p.batch_rank > max_rank) return std::nullopt;
  std::vector<ir::Dim> sizes;
  auto steps = map_steps(from, sizes);
  if (!steps) return std::nullopt;
  size_t inner = indices - 1;
  while (inner > p.batch_rank + p.m_rank && from.dims[inner] == ir::Dim(1)) --inner;
  const std::optional<int64_t> step = step_in_memory(from, p.a, inner).constant();
  if (!step || *step < 1 || *step > tuning::nearest_channels) return std::nullopt;
  return Map{{static_cast<uint8_t>(from.axes.size()), static_cast<uint8_t>(p.m_rank), static_cast<uint8_t>(k_rank), std::move(*steps)}, std::move(sizes)};
}

EmittedStep emit_gemm(const Gemm& g, const std::optional<Map>& map, const FusedBody& body, bool in_order) {
  Emitted code = emit(body);
  kernels::MatmulArgs args;
  args.packed = g.packed.has_value();
  args.in_order = in_order;
  args.batch_rank = static_cast<uint8_t>(g.batch_rank);
  args.body = code.code;
  ir::Dim m, k;
  if (g.map) {
    args.map = map->map;
    const auto first = g.map->dims.begin() + static_cast<int64_t>(g.batch_rank), second = first + static_cast<int64_t>(g.m_rank);
    m = std::accumulate(first, second, ir::Dim(1), std::multiplies<>());
    k = std::accumulate(second, g.map->dims.end(), ir::Dim(1), std::multiplies<>());
  } else {
    m = g.a.dims[g.batch_rank];
    k = g.a.dims.back();
  }
  EmittedStep step{"matmul", kernels::serialise(args), {m, body.row.back(), k}};
  if (map) step.sizes.insert(step.sizes.end(), map->sizes.begin(), map->sizes.end());
  step.sizes.insert(step.sizes.end(), code.sizes.begin(), code.sizes.end());
  return step;
}

// Float32 sums of several blocks of K are stored in the result before the body reads its operands there.
std::optional<Wish> wish_for_memory(const Gemm& g, const FusedBody& body) {
  const ir::Dim k =
      g.map ? std::accumulate(g.map->dims.begin() + static_cast<int64_t>(g.batch_rank + g.m_rank), g.map->dims.end(), ir::Dim(1), std::multiplies<>()) : g.a.dims.back();
  if (g.type == ir::DType::f32 && !g.encoding && k.constant().value_or(INT64_MAX) <= tuning::k_block) return reused_memory;
  return body.operands[body.stores[0].operand] == ir::DType::f32 ? std::optional(own_memory) : std::nullopt;
}

bool is_narrow_float(ir::DType type) { return type == ir::DType::f32 || type == ir::DType::f16 || type == ir::DType::bf16; }

bool is_taken(const ir::Encoding& e) { return (e.storage == ir::DType::f32 || e.storage == ir::DType::i8) && is_scaled_by_column(e); }

bool can_be_packed(const Gemm& g) {
  const ir::Dims& b = g.b[0].dims;
  return g.constant && !g.packed && ir::is_float(g.type) && b.size() == 2 && b[0].is_constant() && b[1].is_constant();
}

std::optional<Refusal> obstacle(const Gemm& g, const std::optional<Map>& map) {
  constexpr std::string_view name = "matmul";
  if (g.prologue) return Refusal{name, Obstacle::a, "rows are read from memory"};
  if (g.scale != nullptr || g.row_ends != nullptr) return Refusal{name, Obstacle::b, "B has no scales along K, and all rows have one"};
  if (g.b.size() > 1) return Refusal{name, Obstacle::b, "B is one matrix"};
  if (g.gated) return Refusal{name, Obstacle::body, "the body sees one column at a time"};
  if (g.encoding && !is_taken(*g.encoding)) return Refusal{name, Obstacle::b, "numbers of B are float32, or int8 with a scale for each column"};
  if (g.encoding && !is_narrow_float(g.type)) return Refusal{name, Obstacle::types, "encoded weights are for float32, float16 and bfloat16"};
  if (g.encoding && g.encoding->storage == ir::DType::i8 && !g.packed && !can_be_packed(g)) return Refusal{name, Obstacle::b, "int8 numbers are read packed"};
  if (!g.map) return std::nullopt;
  if (!is_narrow_float(g.type)) return Refusal{name, Obstacle::a, "a map is followed for float32, float16 and bfloat16"};
  if (!map && is_placed(g.a)) return Refusal{name, Obstacle::a, "the stride along K is too large"};
  return std::nullopt;
}

// Panels in the weight's own type: tiles widen the numbers in registers, or multiply them in pairs.
std::optional<Packing> packing_of(const Gemm& g) {
  if (!g.packed && !can_be_packed(g)) return std::nullopt;
  return Packing{"matmul_pack", kernels::panels_of(g.encoding ? g.encoding->storage : g.type)};
}

// True for a body that reads inside a border, with few columns: it is interpreted row by row, which costs more than a pass of its own.
bool goes_better_alone(const FusedBody* body) {
  if (body == nullptr || body->row.back().constant().value_or(tuning::interpreted_columns) >= tuning::interpreted_columns) return false;
  return std::any_of(body->code.begin(), body->code.end(), [](const Instruction& i) { return !i.lower.empty(); });
}

// Nanoseconds.
double cost_of(const Site& site, const Gemm& g, const Settings& settings) {
  if (const auto conv = g.map && g.type == ir::DType::bf16 ? other_conv_site(site, settings) : nullptr) {
    kernels::conv::ConvSizes sizes = conv->sizes;
    sizes.n = (sizes.n + 2 * cpu_of(settings).lanes - 1) / (2 * cpu_of(settings).lanes) * 2 * cpu_of(settings).lanes;  // only tiles of float32 leave out half of a panel
    return kernels::conv::cost_of_rows(sizes, cpu_of(settings));
  }
  if (const auto conv = g.type == ir::DType::f32 ? conv_site(site, settings) : nullptr) return kernels::conv::cost_of_rows(conv->sizes, cpu_of(settings));
  if (site.body == nullptr) return 0;
  auto usual = [&](const ir::Dim& d) { return site.usual(d).value_or(1); };
  kernels::conv::ConvSizes s;
  s.outputs = 1;
  for (const ir::Dim& d : site.body->outer) s.outputs *= static_cast<double>(usual(d));
  s.n = usual(site.body->row.back());
  s.k = s.run = usual(g.a.dims.back());
  s.mapped = false;
  Machine machine = settings.machine;
  if (g.type == ir::DType::bf16) machine.f32 = machine.bf16;
  return kernels::conv::cost_of_rows(s, {machine, static_cast<int64_t>(machine.lanes), 1});
}

}  // namespace

void matmul_offers(const Site& site, const Settings& settings, Offers& out) {
  const auto g = gemm_of(site);
  if (g == nullptr) return;
  auto map = g->map && is_placed(g->a) ? map_of(*g) : std::nullopt;
  if (auto refusal = obstacle(*g, map)) return out.refusals.push_back(std::move(*refusal));
  const bool in_order = settings.deterministic == Deterministic::batch;
  const bool alone = goes_better_alone(site.body);
  std::vector<Wish> wishes{channels_innermost, contiguous_rows};
  wish_for_merged_rows(wishes, site, *g, tuning::rows_of_block, settings.machine);
  const std::optional<Wish> memory = site.body == nullptr ? std::nullopt : wish_for_memory(*g, *site.body);
  if (memory) wishes.push_back(*memory);
  const double cost = cost_of(site, *g, settings);
  if (alone) out.offers.push_back({.implementation = "matmul", .cost = cost, .takes_body = false, .wishes = wishes});
  out.offers.push_back({.implementation = "matmul",
                        .cost = cost + (alone ? 2 * out.pass : 0),
                        .wishes = wishes,
                        .packing = packing_of(*g),
                        .tunables = {"blocks"},
                        .emit = [g, map = std::move(map), body = site.body, in_order] { return emit_gemm(*g, map, *body, in_order); }});
}

}  // namespace ingot::backend::cpu
