// Offers convolutions that read their windows in place: few columns, few channels, groups of few, or images and results along lines.
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "backend/cpu/compile/along_lines.h"
#include "backend/cpu/compile/byte_code.h"
#include "backend/cpu/compile/offers.h"
#include "kernels/matmul/run/matmul_args.h"

namespace ingot::backend::cpu {

namespace {

using kernels::GemmMap;

constexpr int64_t vector = 8;          // columns
constexpr int64_t most_columns = 128;  // up to here, copying rows does not pay, whatever the length of lines
constexpr int64_t short_line = 12;     // outputs that fill most of a vector
constexpr int64_t long_line = 12;      // outputs that fill a tile: as many products per load as with copied rows

// A GEMM without a map, written with the map that its strides are.
Gemm mapped(const Gemm& g) {
  Gemm out = g;
  if (g.map) return out;
  out.map = ir::AffineMap{g.a.dims, {}, std::nullopt};
  for (uint32_t i = 0; i < g.a.dims.size(); ++i) out.map->axes.push_back({0, {{i, 1}}});
  return out;
}

// The batch axis along which B differs; npos if none does.
constexpr size_t npos = SIZE_MAX;
size_t group_axis(const Gemm& g) {
  for (size_t d = 0; !g.packed && d < g.batch_rank; ++d) {
    if (!(g.b[0].strides[d] == ir::Dim(0)) && !(g.b[0].dims[d] == ir::Dim(1))) return d;
  }
  return npos;
}

struct Sizes {
  int64_t n, k;
};
std::optional<Sizes> sizes_of(const Gemm& g, const FusedBody& body) {
  const auto first_k = g.map->dims.begin() + static_cast<int64_t>(g.batch_rank + g.m_rank);
  const auto n = body.row.back().constant(), k = std::accumulate(first_k, g.map->dims.end(), ir::Dim(1), std::multiplies<>()).constant();
  return n && k && *n > 0 && *k > 0 ? std::optional(Sizes{*n, *k}) : std::nullopt;
}

std::optional<std::string> groups_obstacle(const Site& site, const Gemm& g, size_t axis, const Sizes& sizes) {
  const auto groups = g.map->dims[axis].constant(), channels = step_in_memory(*g.map, g.a, axis).constant();
  if (!groups || !channels) return "groups of unknown sizes";
  for (size_t d = 0; d < g.batch_rank; ++d) {
    if (d != axis && !(g.b[0].strides[d] == ir::Dim(0))) return "B differs along several axes";
  }
  const size_t last = g.batch_rank + 1;
  for (const StridedLayout& x : site.operands) {
    const bool repeats = x.dims[axis] == ir::Dim(1) && x.dims[last] == ir::Dim(1);
    if (x.dims.size() != last + 1 || (!repeats && sizes.n != 1 && !(x.strides[axis] == x.strides[last] * ir::Dim(sizes.n)))) return "columns of groups are not neighbours";
  }
  for (const Instruction& i : site.body->code) {
    if (i.kind == Instruction::Kind::index || !i.lower.empty() || !i.in.empty()) {
      if (i.kind != Instruction::Kind::map) return "the body names places";
    }
  }
  return std::nullopt;
}

std::optional<std::string> obstacle(const Site& site, const Gemm& g, const Settings& settings) {
  if (settings.deterministic == Deterministic::batch) return "the order of sums depends on places";
  if (g.type != ir::DType::f32 || g.encoding || g.prologue || g.gated || g.b.size() > 1) return "for plain products of float32";
  const size_t k_rank = g.map->dims.size() - g.batch_rank - g.m_rank;
  if (g.map->axes.size() > GemmMap::max_rank || g.m_rank > GemmMap::max_rank || k_rank > GemmMap::max_rank || g.batch_rank > GemmMap::max_rank) return "too many axes";
  // Each axis of A with a border is moved along by only one index of outputs.
  for (const ir::AffineMap::Axis& axis : g.map->axes) {
    if (std::count_if(axis.terms.begin(), axis.terms.end(), [&](const auto& t) { return t.axis < g.batch_rank + g.m_rank; }) > 1)
      return "an axis is moved along by several indices";
  }
  std::vector<ir::Dim> ignored;
  if (!map_steps(*g.map, ignored)) return "an index goes backwards";
  const auto sizes = sizes_of(g, *site.body);
  if (!sizes) return "K or N is unknown";
  const size_t axis = group_axis(g);
  return axis == npos ? std::nullopt : groups_obstacle(site, g, axis, *sizes);
}

// Outputs of a line, if images and results lie along lines and vectors may go along them.
std::optional<int64_t> along_lines(const Site& site, const Gemm& g) {
  LineResults kept;
  const StridedLayout& to = site.operands[site.body->stores[0].operand];
  if (!is_placed(to) || to.dims.size() != g.batch_rank + 2) return std::nullopt;
  auto steps = [&](const StridedLayout& x) {
    std::vector<ir::Dim> out(x.strides.begin(), x.strides.begin() + static_cast<int64_t>(g.batch_rank));
    out.resize(g.batch_rank + g.m_rank);
    ir::Dim step = x.dims[g.batch_rank] == ir::Dim(1) ? ir::Dim(0) : x.strides[g.batch_rank];
    for (size_t i = out.size(); i-- > g.batch_rank; step *= g.map->dims[i]) out[i] = step;
    return out;
  };
  constexpr int64_t few = 4;  // columns beside one another: their stores are element by element
  if (to.strides.back() == ir::Dim(1) && to.dims.back().constant().value_or(INT64_MAX) > (group_axis(g) == npos ? few : 1)) return std::nullopt;
  kept.steps = steps(to);
  for (const Instruction& i : site.body->code) {
    if (i.kind == Instruction::Kind::load) kept.loads.push_back(steps(site.operands[i.operand]));
  }
  if (const size_t axis = group_axis(g); axis != npos) {
    kept.loads.emplace_back(kept.steps.size(), ir::Dim(0));
    kept.loads.back()[axis] = 1;
  }
  return line_length(*g.map, g.a, kept, *site.body);
}

// True if vectors along lines of this length are the faster way, beside vectors along columns and copies of the image and the result into another order. In
// cycles of two vectors of 16 products, per output.
bool lines_pay(const Gemm& g, bool has_map, const Sizes& sizes, int64_t length) {
  constexpr double vector = 16, of_few_channels = 0.65, of_narrow_groups = 0.5, of_one_vector = 0.8, copy = 1, copy_of_rows = 1.8, much = 0.97;
  auto filled = [](int64_t n) { return static_cast<double>(n) / (vector * std::ceil(static_cast<double>(n) / vector)); };
  constexpr int64_t few = 4;
  const size_t axis = group_axis(g);
  const double of_peak = axis == npos ? 0.87 : 0.8;  // sums of groups are short
  double all = 1, span = 1, outputs = 1, groups = 1, channels = static_cast<double>(sizes.k);
  for (size_t j = 0; j < g.a.dims.size(); ++j) {
    const double n = static_cast<double>(g.a.dims[j].constant().value_or(1));
    all *= n;
    span += (n - 1) * static_cast<double>(g.a.strides[j].constant().value_or(1));
  }
  const double image = std::min(all, span);  // windows may be a view whose elements overlap
  for (size_t i = 0; i < g.batch_rank + g.m_rank; ++i) (i == axis ? groups : outputs) *= static_cast<double>(g.map->dims[i].constant().value_or(1));
  for (size_t i = g.batch_rank + g.m_rank; i < g.map->dims.size(); ++i) {
    const bool window = std::any_of(g.map->axes.begin(), g.map->axes.end(), [&](const ir::AffineMap::Axis& a) {
      return a.terms.size() > 1 && std::any_of(a.terms.begin(), a.terms.end(), [&](const auto& t) { return t.axis == i; });
    });
    if (window) channels /= static_cast<double>(g.map->dims[i].constant().value_or(1));
  }
  const double products = static_cast<double>(sizes.k * sizes.n) / 2 / vector, read = channels < few && axis == npos ? 0 : image / groups / outputs;
  const double by_columns = filled(sizes.n) * (channels < few && axis == npos ? of_few_channels : 1) *
                            (axis == npos        ? 1
                             : sizes.n < vector  ? of_narrow_groups
                             : sizes.n == vector ? of_one_vector
                                                 : 1);
  return products / filled(length) / of_peak < much * (products / by_columns + (has_map ? copy : copy_of_rows) * (read + static_cast<double>(sizes.n)));
}

// The share of window elements that are inside A, if sizes are known; copied rows would be zero elsewhere.
double inside(const Gemm& g) {
  constexpr int64_t most = 1 << 16;  // positions per axis to count
  double all = 1;
  for (size_t a = 0; a < g.map->axes.size(); ++a) {
    const ir::AffineMap::Axis& axis = g.map->axes[a];
    const auto size = g.a.dims[a].constant(), offset = axis.offset.constant();
    if (!size || !offset) continue;
    std::vector<int64_t> places{*offset};
    for (const ir::AffineMap::Term& t : axis.terms) {
      const int64_t extent = g.map->dims[t.axis].constant().value_or(most);
      if (extent * static_cast<int64_t>(places.size()) >= most) {
        places.clear();
        break;
      }
      const size_t n = places.size();
      for (int64_t i = 1; i < extent; ++i) {
        for (size_t k = 0; k < n; ++k) places.push_back(places[k] + i * t.coefficient);
      }
    }
    const auto seen = std::count_if(places.begin(), places.end(), [&](int64_t x) { return x >= 0 && x < *size; });
    if (!places.empty()) all *= static_cast<double>(seen) / static_cast<double>(places.size());
  }
  return all;
}

// Into how many ranges of outputs with the same taps inside A the last index of M falls, if sizes are known: a tile holds outputs of one range.
int64_t ranges(const Gemm& g) {
  const auto line = static_cast<uint32_t>(g.batch_rank + g.m_rank - 1);
  const int64_t length = g.map->dims[line].constant().value_or(0);
  std::set<int64_t> begins{0};
  for (size_t a = 0; a < g.map->axes.size(); ++a) {
    const ir::AffineMap::Axis& axis = g.map->axes[a];
    const auto size = g.a.dims[a].constant(), offset = axis.offset.constant();
    int64_t step = 0, taps = 1, apart = 0;
    for (const ir::AffineMap::Term& t : axis.terms) {
      if (t.axis == line) {
        step = t.coefficient;
      } else if (t.axis > line) {
        taps = g.map->dims[t.axis].constant().value_or(1), apart = t.coefficient;
      }
    }
    if (step < 1 || !size || !offset) continue;
    for (int64_t k = 0; k < taps; ++k) {
      for (const int64_t border : {int64_t{0}, *size}) {
        const int64_t away = border - *offset - k * apart, begin = away <= 0 ? 0 : (away + step - 1) / step;
        if (begin < length) begins.insert(begin);
      }
    }
  }
  return std::ssize(begins);
}

// True if windows have one place, as in a 1 x 1 convolution with a stride: copied rows are no larger than what they are copied from.
bool has_one_place(const Gemm& g) {
  const auto first_k = g.map->dims.begin() + static_cast<int64_t>(g.batch_rank + g.m_rank);
  return std::all_of(first_k, g.map->dims.end() - 1, [](const ir::Dim& d) { return d == ir::Dim(1); });
}

// The body over the domain with the groups' axis merged into the columns.
FusedBody joined(FusedBody body, size_t axis) {
  body.row.back() = body.row.back() * body.outer[axis];
  body.outer.erase(body.outer.begin() + static_cast<int64_t>(axis));
  return body;
}

EmittedStep emit_direct_conv(const Gemm& g, const FusedBody& body) {
  const size_t axis = group_axis(g);
  Emitted code = emit(axis == npos ? body : joined(body, axis));
  std::vector<ir::Dim> map_sizes;
  auto steps = map_steps(*g.map, map_sizes);
  const size_t k_rank = g.map->dims.size() - g.batch_rank - g.m_rank;
  kernels::MatmulArgs args;
  args.packed = g.packed.has_value();
  args.batch_rank = static_cast<uint8_t>(g.batch_rank);
  args.body = code.code;
  args.map = GemmMap{static_cast<uint8_t>(g.map->axes.size()), static_cast<uint8_t>(g.m_rank), static_cast<uint8_t>(k_rank), std::move(*steps)};
  const auto first = g.map->dims.begin() + static_cast<int64_t>(g.batch_rank), second = first + static_cast<int64_t>(g.m_rank);
  EmittedStep step{"direct_conv",
                   kernels::serialise(args),
                   {std::accumulate(first, second, ir::Dim(1), std::multiplies<>()), body.row.back(), std::accumulate(second, g.map->dims.end(), ir::Dim(1), std::multiplies<>())}};
  step.sizes.insert(step.sizes.end(), map_sizes.begin(), map_sizes.end());
  step.sizes.insert(step.sizes.end(), code.sizes.begin(), code.sizes.end());
  // If the columns of narrow groups do not fill whole vectors, the last ones are computed twice.
  const bool once = axis == npos || (body.row.back() * body.outer[axis]).constant().value_or(1) % vector == 0;
  if (once) step.elementwise = 2;
  step.reuses = true;
  return step;
}

}  // namespace

void direct_conv_offers(const Site& site, const Settings& settings, Offers& out) {
  const auto* given = std::get_if<Gemm>(&site.kernel);
  if (given == nullptr || !is_placed(given->a) || given->prologue) return;
  const auto g = std::make_shared<const Gemm>(mapped(*given));
  auto refuse = [&](Obstacle obstacle, std::string reason) {
    if (given->map) out.refusals.push_back({"windows in place", obstacle, std::move(reason)});  // for other GEMMs the refusal would be noise
  };
  // Results that lie along lines are written there, from images that do.
  if (const auto length = along_lines(site, *g);
      length && *length >= short_line && !obstacle(site, *g, settings) && lines_pay(*g, given->map.has_value(), *sizes_of(*g, *site.body), *length)) {
    out.offers.push_back({.implementation = "vectors along lines",
                          .cost = -2,
                          .padding = padding_of(*given, rows_of_a_block),
                          .packing = g->packed ? std::optional(Packing{"matmul_pack", kernels::panels_of(g->type)}) : std::nullopt,
                          .emit = [g, body = site.body] {
                            EmittedStep step = emit_direct_conv(*g, *body);
                            step.elementwise = SIZE_MAX;  // the last outputs of a line may be computed twice
                            return step;
                          }});
  }
  if (auto reason = obstacle(site, *g, settings)) return refuse(Obstacle::types, std::move(*reason));
  // Reading panels of B again for each line is slower than copying rows of A once for all of them.
  const Sizes sizes = *sizes_of(*g, *site.body);
  const bool groups = group_axis(*g) != npos && (given->map || g->constant), apart = !(g->a.strides.back() == ir::Dim(1));
  constexpr double half = 0.5;  // of the windows: if more is outside, copying rows costs more than reading B again
  const int64_t line = given->map ? g->map->dims[g->batch_rank + g->m_rank - 1].constant().value_or(0) : 0;
  // Rows of a transposed convolution's phase lie in lines apart. A product for each line would be short.
  const int64_t rows = g->a.dims[g->batch_rank].constant().value_or(0);
  const bool in_lines = given->convolution && g->batch_rank > 0 && rows >= long_line;
  const bool few = given->map ? sizes.n <= most_columns || (line >= long_line && ranges(*g) <= line / 2 && !has_one_place(*g)) || inside(*g) < half
                              : sizes.k <= 64 && sizes.n <= most_columns && (in_lines || (rows >= 64 && (sizes.n < 2 * vector || apart)));
  if (!groups && !few && !out.offers.empty()) return refuse(Obstacle::cost, "columns enough to copy rows for");
  out.offers.push_back({.implementation = "windows in place",
                        .cost = -1,
                        .padding = padding_of(*given, rows_of_a_block),
                        .wishes = {channels_innermost, contiguous_rows},
                        .packing = g->packed ? std::optional(Packing{"matmul_pack", kernels::panels_of(g->type)}) : std::nullopt,
                        .emit = [g, body = site.body] { return emit_direct_conv(*g, *body); }});
}

}  // namespace ingot::backend::cpu
