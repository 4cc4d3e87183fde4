#include "backend/cpu/kernels/conv/site.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "backend/cpu/compile/byte_code.h"
#include "backend/cpu/kernels/conv/run/tuning.h"
#include "backend/cpu/kernels/matmul/run/tuning.h"
#include "kernels/matmul/run/matmul_args.h"

namespace ingot::backend::cpu {

namespace {

using kernels::GemmMap;
namespace tuning = kernels::conv::tuning;

// A GEMM without a map, written with the map that its strides are.
Gemm mapped(const Gemm& g) {
  Gemm out = g;
  if (g.map) return out;
  out.map = ir::AffineMap{g.a.dims, {}, std::nullopt};
  for (uint32_t i = 0; i < g.a.dims.size(); ++i) out.map->axes.push_back({0, {{i, 1}}});
  return out;
}

size_t group_axis_of(const Gemm& g) {
  for (size_t d = 0; !g.packed && d < g.batch_rank; ++d) {
    if (!(g.b[0].strides[d] == ir::Dim(0)) && !(g.b[0].dims[d] == ir::Dim(1))) return d;
  }
  return SIZE_MAX;
}

std::optional<std::string> groups_obstacle(const Site& site, const Gemm& g, size_t axis, int64_t n) {
  if (!g.map->dims[axis].constant() || !step_in_memory(*g.map, g.a, axis).constant()) return "groups of unknown sizes";
  for (size_t d = 0; d < g.batch_rank; ++d) {
    if (d != axis && !(g.b[0].strides[d] == ir::Dim(0))) return "B differs along several axes";
  }
  const size_t last = g.batch_rank + 1;
  for (const StridedLayout& x : site.body_layouts()) {
    const bool repeats = x.dims[axis] == ir::Dim(1) && x.dims[last] == ir::Dim(1);
    if (x.dims.size() != last + 1 || (!repeats && n != 1 && !(x.strides[axis] == x.strides[last] * ir::Dim(n)))) return "columns of groups are not neighbours";
  }
  for (const Instruction& i : site.body->code) {
    if (i.kind == Instruction::Kind::index || !i.lower.empty() || !i.in.empty()) {
      if (i.kind != Instruction::Kind::map) return "the body names places";
    }
  }
  return std::nullopt;
}

std::optional<std::string> find_obstacle(const Site& site, const ConvSite& s, const Settings& settings, int64_t n) {
  const Gemm& g = s.gemm;
  if (settings.deterministic == Deterministic::batch) return "the order of sums depends on places";
  const bool type_is_read = g.type == ir::DType::f32 || g.type == ir::DType::bf16 || g.type == ir::DType::f64;
  if (!type_is_read || g.encoding || g.prologue || g.gated || g.b.size() > 1) return "for plain products of float32, bfloat16 and float64";
  const size_t k_rank = g.map->dims.size() - g.batch_rank - g.m_rank;
  if (g.map->axes.size() > GemmMap::max_rank || g.m_rank > GemmMap::max_rank || k_rank > GemmMap::max_rank || g.batch_rank > GemmMap::max_rank) return "too many axes";
  // Each axis of A with a border is moved along by only one index of outputs.
  for (const ir::AffineMap::Axis& axis : g.map->axes) {
    if (std::count_if(axis.terms.begin(), axis.terms.end(), [&](const auto& t) { return t.axis < g.batch_rank + g.m_rank; }) > 1)
      return "an axis is moved along by several indices";
  }
  return s.group_axis == SIZE_MAX ? std::nullopt : groups_obstacle(site, g, s.group_axis, n);
}

// The map at the usual sizes, as the kernels see it.
kernels::IndexMap usual_map(const Site& site, const Gemm& g, std::span<const int64_t> steps, std::span<const ir::Dim> sizes) {
  auto usual = [&](const ir::Dim& d) { return site.usual(d).value_or(tuning::unknown_size); };
  std::vector<int64_t> numbers, dims, strides;
  for (const ir::Dim& d : sizes) numbers.push_back(usual(d));
  for (const ir::Dim& d : g.a.dims) dims.push_back(usual(d));
  for (const ir::Dim& d : g.a.strides) strides.push_back(usual(d));
  return kernels::resolve_index_map("a convolution", steps, {nullptr, g.type, static_cast<int>(dims.size()), dims.data(), strides.data()}, numbers);
}

int64_t product(std::span<const ir::Dim> dims) { return std::accumulate(dims.begin(), dims.end(), ir::Dim(1), std::multiplies<>()).constant().value_or(0); }

// The index of K along which an image has its channels.
size_t channel_index(const Gemm& g) {
  size_t inner = g.map->dims.size() - 1;
  while (inner > g.batch_rank + g.m_rank && g.map->dims[inner] == ir::Dim(1)) --inner;
  return inner;
}

bool has_contiguous_channels(const Gemm& g) { return step_in_memory(*g.map, g.a, channel_index(g)) == ir::Dim(1); }

// The site's image, after compile has copied it: the axes of groups and channels come last.
Gemm with_copied_image(const ConvSite& s) {
  Gemm out = s.gemm;
  auto moves = [&](size_t axis, size_t index) {
    const std::vector<ir::AffineMap::Term>& terms = out.map->axes[axis].terms;
    return std::any_of(terms.begin(), terms.end(), [&](const auto& t) { return t.axis == index; });
  };
  std::vector<size_t> order(out.a.dims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const size_t channel = channel_index(out);
  auto place = [&](size_t axis) { return moves(axis, channel) ? 2 : s.group_axis != SIZE_MAX && moves(axis, s.group_axis) ? 1 : 0; };
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return place(x) < place(y); });
  ir::Dim step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    out.a.strides[order[i]] = step;
    step *= out.a.dims[order[i]];
  }
  return out;
}

// Kernels with vectors along columns wish for images whose channels are neighbours, and for results whose columns are. Where they are not, compile makes copies: these cost, and after them the
// channels are neighbours.
void expect_copies(const Site& site, ConvSite& s) {
  const Gemm& g = s.gemm;
  const bool image = has_contiguous_channels(g), result = site.body_operand(site.body->stores[0].operand).strides.back() == ir::Dim(1) || s.sizes.n == 1;
  s.sizes.order_cycles = (image ? 0 : s.sizes.image * tuning::ordered_image) + (result ? 0 : static_cast<double>(s.outputs()) * tuning::ordered_result);
  if (!image && s.sizes.mapped) s.sizes.run = s.sizes.tap;
}

EmittedStep emit_conv(std::string_view kernel, const ConvSite& s) {
  const Gemm& g = s.gemm;
  FusedBody body = *s.body;
  if (s.group_axis != SIZE_MAX) {  // its axis and the columns become one
    body.row.back() = body.row.back() * body.outer[s.group_axis];
    body.outer.erase(body.outer.begin() + static_cast<int64_t>(s.group_axis));
  }
  Emitted code = emit(body);
  std::vector<ir::Dim> map_sizes;
  auto steps = map_steps(*g.map, map_sizes);
  const size_t k_rank = g.map->dims.size() - g.batch_rank - g.m_rank;
  kernels::MatmulArgs args;
  args.packed = g.packed.has_value();
  args.batch_rank = static_cast<uint8_t>(g.batch_rank);
  args.body = code.code;
  args.map = GemmMap{static_cast<uint8_t>(g.map->axes.size()), static_cast<uint8_t>(g.m_rank), static_cast<uint8_t>(k_rank), std::move(*steps)};
  const auto first = g.map->dims.begin() + static_cast<int64_t>(g.batch_rank), second = first + static_cast<int64_t>(g.m_rank);
  EmittedStep step{
      std::string(kernel),
      kernels::serialise(args),
      {std::accumulate(first, second, ir::Dim(1), std::multiplies<>()), s.body->row.back(), std::accumulate(second, g.map->dims.end(), ir::Dim(1), std::multiplies<>())}};
  step.sizes.insert(step.sizes.end(), map_sizes.begin(), map_sizes.end());
  step.sizes.insert(step.sizes.end(), code.sizes.begin(), code.sizes.end());
  return step;
}

}  // namespace

namespace {

struct Reading {
  std::shared_ptr<const ConvSite> site;
  std::optional<std::string> obstacle;
};

Reading read(const Site& site, const Settings& settings) {
  const auto given = gemm_of(site);
  if (given == nullptr || site.body == nullptr || !is_placed(given->a) || given->prologue) return {};
  if (given->scale != nullptr || given->row_ends != nullptr) return {};
  auto out = std::make_shared<ConvSite>(ConvSite{mapped(*given), site.body, SIZE_MAX, false, {}, {}});
  const Gemm& g = out->gemm;
  const auto first_k = static_cast<std::ptrdiff_t>(g.batch_rank + g.m_rank);
  const int64_t n = site.body->row.back().constant().value_or(0), k = product(std::span(g.map->dims).subspan(static_cast<size_t>(first_k)));
  auto refuse = [&](std::string reason) {
    return given->map ? Reading{nullptr, std::move(reason)} : Reading{};  // for other GEMMs the refusal would be noise
  };
  if (n <= 0 || k <= 0) return refuse("K or N is unknown");
  out->group_axis = group_axis_of(g);
  if (!given->map && out->group_axis != SIZE_MAX && !given->constant) return {};
  out->is_product = !given->map && !given->convolution && out->group_axis == SIZE_MAX;
  if (auto reason = find_obstacle(site, *out, settings, n)) return refuse(std::move(*reason));
  std::vector<ir::Dim> sizes;
  const auto steps = map_steps(*g.map, sizes);
  if (!steps) return refuse("an index goes backwards");
  out->map = usual_map(site, g, *steps, sizes);
  out->sizes = kernels::conv::sizes_of(out->map, g.batch_rank, g.m_rank, out->group_axis, n);
  out->sizes.mapped = given->map.has_value();
  double image = 1, span = 1;
  for (size_t j = 0; j < g.a.dims.size(); ++j) {
    const auto size = static_cast<double>(site.usual(g.a.dims[j]).value_or(1));
    image *= size;
    span += (size - 1) * static_cast<double>(site.usual(g.a.strides[j]).value_or(1));
  }
  out->sizes.image = std::min(image, span);  // windows may be a view whose elements overlap
  expect_copies(site, *out);
  if (given->map && !has_contiguous_channels(g)) out->after_copy = usual_map(site, with_copied_image(*out), *steps, sizes);
  return {out, std::nullopt};
}

}  // namespace

namespace {

std::shared_ptr<const ConvSite> reading_of(const Site& site, const Settings& settings, std::optional<std::string>* obstacle) {
  const auto& found = site.reading.of<Reading>([&] { return read(site, settings); });
  if (obstacle != nullptr) *obstacle = found.obstacle;
  return found.site;
}

}  // namespace

std::shared_ptr<const ConvSite> conv_site(const Site& site, const Settings& settings, std::optional<std::string>* obstacle) {
  const auto* g = std::get_if<GemmAttributes>(&site.kernel);
  if (g == nullptr) return nullptr;
  if (g->type == ir::DType::f32) return reading_of(site, settings, obstacle);
  if (obstacle != nullptr && g->map) *obstacle = "for products of float32";
  return nullptr;
}

std::shared_ptr<const ConvSite> other_conv_site(const Site& site, const Settings& settings, std::optional<std::string>* obstacle) {
  const auto* g = std::get_if<GemmAttributes>(&site.kernel);
  if (g == nullptr || (g->type != ir::DType::bf16 && g->type != ir::DType::f64)) return nullptr;
  return reading_of(site, settings, obstacle);
}

bool leaves_to_matmul(std::string_view kernel, double nanoseconds, const ConvSite& s, const Settings& settings, Offers& out) {
  if (!s.is_product || settings.rivals || nanoseconds < tuning::gain_of_product * kernels::conv::cost_of_rows(s.sizes, cpu_of(settings))) return false;
  out.refusals.push_back({kernel, Obstacle::cost, "matmul is as fast, and its step serves all sizes"});
  return true;
}

Offer conv_offer(std::string_view kernel, std::shared_ptr<const ConvSite> s, double nanoseconds, bool once) {
  const Gemm& g = s->gemm;
  return {.implementation = kernel,
          .cost = nanoseconds,
          .wishes = {once ? reused_memory : own_memory},
          .packing = g.packed ? std::optional(Packing{"matmul_pack", kernels::panels_of(g.type)}) : std::nullopt,
          .emit = [kernel, s] { return emit_conv(kernel, *s); }};
}

}  // namespace ingot::backend::cpu
