// Offers convolutions in groups of few columns, and those of few columns in all: a thread or a warp sums some outputs of a line.
#include <algorithm>
#include <numeric>

#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/gemm/gemm_site.h"
#include "backend/cuda/kernels/gemm/grouped_convolution/grouped_convolution_text.h"
#include "backend/cuda/kernels/gemm/grouped_convolution/run/grouped_convolution.h"
#include "backend/cuda/kernels/gemm/run/tuning.h"
#include "backend/cuda/kernels/run/windows_args.h"

namespace ingot::backend::cuda {

using ir::Dim;

namespace {

using namespace kernels::gemm::tuning;

// Nanoseconds on an H200. Threads share a sum only where channels, the last index of K, are neighbours in A: in a sketch along its last axis.
double cost_of(const Gemm& g, const kernels::GemmSizes& s) {
  int lanes = 1;
  for (size_t j = 0; g.map && j < g.map->axes.size(); ++j) {
    const ir::AffineMap::Axis& axis = g.map->axes[j];
    const auto channels = g.map->dims.back().constant();
    const bool along = axis.terms.size() == 1 && axis.terms[0].axis + 1 == g.map->dims.size() && (is_placed(g.a) ? is(g.a.strides[j], 1) : j + 1 == g.map->axes.size());
    if (along && channels && *channels > 1) lanes = lanes_of_sum(*channels / std::gcd(*channels, 16 / static_cast<int64_t>(ir::size_of(g.type))), s.m);
  }
  const auto k = static_cast<double>(s.k);
  return grouped_launch + grouped_term * k / lanes + static_cast<double>(s.m) * static_cast<double>(s.n) * k / grouped_products;
}

// True if windows of this map are read through it when they are placed. Without padding they are strides: A has an axis for each index, or is a matrix.
bool reads_windows(const ir::AffineMap& map, size_t rows) {
  using Axis = ir::AffineMap::Axis;
  if (std::any_of(map.axes.begin(), map.axes.end(), [](const Axis& axis) { return !is(axis.offset, 0); })) return true;
  const auto of_k = std::count_if(map.dims.begin() + static_cast<int64_t>(rows), map.dims.end(), [](const Dim& d) { return !is(d, 1); });
  const bool skips = std::any_of(map.axes.begin(), map.axes.end(), [&](const Axis& axis) {
    return std::any_of(axis.terms.begin(), axis.terms.end(), [&](const ir::AffineMap::Term& t) { return t.coefficient != 1 && !is(map.dims[t.axis], 1); });
  });
  return (of_k > 1 || skips) && map.dims.size() <= size_t{kernels::WindowArgs::max_rank};
}

// True if sums by single threads cost less than what the other ways to multiply by so few columns copy, or multiply for nothing (estimates).
bool has_few_columns(const Gemm& g) {
  Dim rows = g.map ? Dim(1) : rows_of(g);
  for (size_t i = 0; g.map && i < g.batch_rank + g.m_rank; ++i) rows *= g.map->dims[i];
  const auto n = g.b[0].dims.back().constant(), k = g.b[0].dims[g.b[0].dims.size() - 2].constant(), m = rows.constant();
  return g.convolution && n && *n <= max_columns_alone && k && *k <= max_shared_sum && (!m || *m * *k * *n <= max_products_alone);
}

}  // namespace

void gemm_grouped_convolution_offers(const Site& site, const Target& target, const Settings& settings, Offers& out) {
  constexpr std::string_view name = "gemm_grouped_convolution";
  const auto gemm = gemm_of(site);
  if (gemm == nullptr || !gemm->convolution) return;
  const Gemm& g = *gemm;
  if (!is_placed(g.a)) {
    if (has_few_columns(g) && (!g.map || reads_windows(*g.map, g.batch_rank + g.m_rank)))
      out.offers.push_back(
          {.implementation = name, .cost = cost_of(g, gemm_sizes(site, g, target, settings)), .wishes = {even_rows}});  // a sketch; of groups, windows are asked for first anyway
    return;
  }
  if (!g.map) return;
  if (auto o = grouped_convolution_obstacle(g, *site.body, site.body_layouts())) return out.refusals.push_back({name, o->obstacle, std::move(o->reason)});
  const bool groups = std::any_of(g.b[0].strides.begin(), g.b[0].strides.begin() + static_cast<int64_t>(g.batch_rank), [](const Dim& s) { return !is(s, 0); });
  if (groups ? g.b[0].dims[g.batch_rank].value() > max_sum_of_group : !has_few_columns(g))
    return out.refusals.push_back({name, Obstacle::cost, "so many products are faster by matrix instructions"});
  const bool matrices = target.architecture >= 80 && (is_half(g.type) || settings.tf32_convolutions);
  auto print = [gemm, &site, matrices](const std::vector<int>& variants) { return emit_grouped_convolution(*gemm, *site.body, site.body_layouts(), matrices, variants); };
  out.offers.push_back({.implementation = name, .cost = cost_of(g, gemm_sizes(site, g, target, settings)), .wishes = {even_rows}, .emit = [print, &site] {
                          return step_of_used({kernels::load_grouped_convolution, kernels::grouped_convolution_launches}, print, site);
                        }});
}

}  // namespace ingot::backend::cuda
