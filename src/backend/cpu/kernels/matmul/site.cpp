#include "backend/cpu/kernels/matmul/site.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "backend/cpu/compile/byte_code.h"
#include "backend/cpu/kernels/conv/site.h"
#include "backend/cpu/kernels/matmul/run/tile.h"
#include "backend/cpu/kernels/matmul/run/tuning.h"
#include "backend/groups.h"

namespace ingot::backend::cpu {

namespace {

namespace tuning = kernels::matmul::tuning;

using Map = ProductSite::Map;

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

bool is_narrow_float(ir::DType type) { return type == ir::DType::f32 || type == ir::DType::f16 || type == ir::DType::bf16; }

// The groups of a B that is packed, or can be.
kernels::Groups groups_read(const Gemm& g) { return g.packed ? kernels::groups_of(g.packed->encoding) : backend::groups_of(g); }

EmittedStep emit_product(std::string_view kernel, const ProductSite& site) {
  const Gemm& g = *site.gemm;
  const FusedBody& body = *site.body;
  Emitted code = emit(body);
  kernels::MatmulArgs args;
  args.packed = g.packed.has_value();
  args.in_order = site.in_order;
  args.batch_rank = static_cast<uint8_t>(g.batch_rank);
  args.groups = groups_read(g);
  args.body = code.code;
  ir::Dim m, k;
  if (g.map) {
    args.map = site.map->map;
    const auto first = g.map->dims.begin() + static_cast<int64_t>(g.batch_rank), second = first + static_cast<int64_t>(g.m_rank);
    m = std::accumulate(first, second, ir::Dim(1), std::multiplies<>());
    k = std::accumulate(second, g.map->dims.end(), ir::Dim(1), std::multiplies<>());
  } else {
    m = g.a.dims[g.batch_rank];
    k = g.a.dims.back();
  }
  EmittedStep step{std::string(kernel), kernels::serialise(args), {m, body.row.back(), k}};
  if (site.map) step.sizes.insert(step.sizes.end(), site.map->sizes.begin(), site.map->sizes.end());
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

bool is_taken(const ir::Encoding& e) { return (e.storage == ir::DType::f32 || e.storage == ir::DType::i8) && is_scaled_by_column(e); }

bool can_be_packed(const Gemm& g) {
  const ir::Dims& b = g.b[0].dims;
  return g.constant && !g.packed && ir::is_float(g.type) && b.size() == 2 && b[0].is_constant() && b[1].is_constant();
}

std::optional<Refusal> obstacle(const Gemm& g, const std::optional<Map>& map) {
  constexpr std::string_view name = "matmul";
  if (g.prologue) return Refusal{name, Obstacle::a, "rows are read from memory"};
  if (g.row_ends != nullptr) return Refusal{name, Obstacle::b, "all rows have one B"};
  if (g.b.size() > 1) return Refusal{name, Obstacle::b, "B is one matrix"};
  if (g.gated) return Refusal{name, Obstacle::body, "the body sees one column at a time"};
  if (g.encoding && !is_taken(*g.encoding) && groups_read(g).size == 0)
    return Refusal{name, Obstacle::b, "numbers of B are float32, int8 with a scale for each column, or of 4 bits in groups of 32, 64 or 128 along K"};
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
  if (const kernels::Groups groups = groups_read(g); groups.size > 0) return Packing{"matmul_pack_groups", kernels::panels_of(groups)};
  return Packing{"matmul_pack", kernels::panels_of(g.encoding ? g.encoding->storage : g.type)};
}

// True for a body that reads inside a border, with few columns: it is interpreted row by row, which costs more than a pass of its own.
bool goes_better_alone(const FusedBody* body) {
  if (body == nullptr || body->row.back().constant().value_or(tuning::interpreted_columns) >= tuning::interpreted_columns) return false;
  return std::any_of(body->code.begin(), body->code.end(), [](const Instruction& i) { return !i.lower.empty(); });
}

// At the usual sizes, and after B was packed if it can be.
kernels::matmul::ProductSizes sizes_of(const Site& site, const Gemm& g, const Settings& settings) {
  kernels::matmul::ProductSizes s;
  s.in_order = settings.deterministic == Deterministic::batch;
  s.packed = g.packed || can_be_packed(g);
  s.panel = g.encoding ? g.encoding->storage : s.packed || !ir::is_float(g.type) ? g.type : g.type == ir::DType::f64 ? ir::DType::f64 : ir::DType::f32;
  s.rounds = ir::is_float(g.type) && ir::size_of(g.type) == 2;
  if (site.body == nullptr) return s;
  auto usual = [&](const ir::Dim& d) { return site.usual(d).value_or(1); };
  s.rows = 1;
  for (const ir::Dim& d : site.body->outer) s.rows *= static_cast<double>(usual(d));
  s.m = usual(site.body->outer.back());
  s.n = usual(site.body->row.back());
  s.k = usual(g.a.dims.back());
  const auto conv = g.type == ir::DType::f32 ? conv_site(site, settings) : g.map && g.type == ir::DType::bf16 ? other_conv_site(site, settings) : nullptr;
  if (conv != nullptr) s.image = conv->sizes;
  return s;
}

}  // namespace

std::shared_ptr<const ProductSite> product_site(const Site& site, const Settings& settings, std::optional<Refusal>* refusal) {
  auto g = gemm_of(site);
  if (g == nullptr) return nullptr;
  auto map = g->map && is_placed(g->a) ? map_of(*g) : std::nullopt;
  if (auto refused = obstacle(*g, map)) {
    if (refusal != nullptr) *refusal = std::move(refused);
    return nullptr;
  }
  const auto packing = packing_of(*g);
  auto sizes = sizes_of(site, *g, settings);
  return std::make_shared<ProductSite>(ProductSite{std::move(g), site.body, std::move(map), settings.deterministic == Deterministic::batch, packing, std::move(sizes)});
}

std::shared_ptr<const ProductSite> pairs_site(const Site& site, const Settings& settings) {
  const auto* g = std::get_if<GemmAttributes>(&site.kernel);
  if (g == nullptr || g->type != ir::DType::bf16 || g->map || site.body == nullptr) return nullptr;
  auto found = product_site(site, settings);
  if (found == nullptr || found->sizes.panel == ir::DType::i8 || found->sizes.panel == ir::DType::bf16) return found;
  if (found->gemm->encoding) return nullptr;  // as float32
  auto pairs = std::make_shared<ProductSite>(*found);
  pairs->sizes.panel = ir::DType::bf16;
  return pairs;
}

bool only_stores(const FusedBody& body) {
  return std::all_of(body.code.begin(), body.code.end(),
                     [](const Instruction& i) { return i.kind == Instruction::Kind::accumulator || (i.kind == Instruction::Kind::map && i.op == ir::Op::cast); });
}

std::shared_ptr<const ProductSite> stored_site(const Site& site, const Settings& settings) {
  const auto* g = std::get_if<GemmAttributes>(&site.kernel);
  if (g == nullptr || is_sketch(site) || settings.deterministic == Deterministic::batch) return nullptr;
  if (g->map || g->packed || !ir::is_float(g->type)) return nullptr;
  if (site.body == nullptr || !only_stores(*site.body)) return nullptr;
  const StridedLayout& to = site.body_operand(site.body->stores[0].operand);
  if (site.body->operands[site.body->stores[0].operand] != g->type || !(to.strides.back() == ir::Dim(1))) return nullptr;
  const auto found = product_site(site, settings);
  if (found == nullptr || found->gemm->encoding || found->gemm->constant) return nullptr;
  return found;
}

void offer_product(std::string_view kernel, double nanoseconds, std::shared_ptr<const ProductSite> s, const Site& site, const Settings& settings, Offers& out) {
  const bool alone = goes_better_alone(site.body);
  std::vector<Wish> wishes{channels_innermost, contiguous_rows};
  const ir::DType type = s->gemm->type;
  wish_for_merged_rows(wishes, site, *s->gemm, tuning::rows_of_block, settings.machine, kernels::matmul::peak_of(settings.machine, type));
  const std::optional<Wish> memory = site.body == nullptr ? std::nullopt : wish_for_memory(*s->gemm, *site.body);
  if (memory) wishes.push_back(*memory);
  if (alone) out.offers.push_back({.implementation = kernel, .cost = nanoseconds, .takes_body = false, .wishes = wishes});
  out.offers.push_back(
      {.implementation = kernel, .cost = nanoseconds + (alone ? 2 * out.pass : 0), .wishes = wishes, .packing = s->packing, .tunables = {"blocks"}, .emit = [kernel, s] {
         return emit_product(kernel, *s);
       }});
}

}  // namespace ingot::backend::cpu
