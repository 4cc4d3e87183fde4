// Offers convolutions of images and results that lie along lines, with vectors along the lines.
#include "backend/cpu/compile/along_lines.h"
#include "backend/cpu/kernels/conv/lines/run/lines.h"
#include "backend/cpu/kernels/conv/run/tuning.h"
#include "backend/cpu/kernels/conv/site.h"

namespace ingot::backend::cpu {

namespace {

// Outputs of a line, if images and results lie along lines and vectors may go along them.
std::optional<int64_t> length_of(const Site& site, const ConvSite& s) {
  const Gemm& g = s.gemm;
  LineResults kept;
  const StridedLayout& to = site.body_operand(site.body->stores[0].operand);
  if (!is_placed(to) || to.dims.size() != g.batch_rank + 2) return std::nullopt;
  auto steps = [&](const StridedLayout& x) {
    std::vector<ir::Dim> out(x.strides.begin(), x.strides.begin() + static_cast<int64_t>(g.batch_rank));
    out.resize(g.batch_rank + g.m_rank);
    ir::Dim step = x.dims[g.batch_rank] == ir::Dim(1) ? ir::Dim(0) : x.strides[g.batch_rank];
    for (size_t i = out.size(); i-- > g.batch_rank; step *= g.map->dims[i]) out[i] = step;
    return out;
  };
  const bool grouped = s.group_axis != SIZE_MAX;
  if (to.strides.back() == ir::Dim(1) && to.dims.back().constant().value_or(INT64_MAX) > (grouped ? 1 : kernels::conv::tuning::max_adjacent_columns)) return std::nullopt;
  kept.steps = steps(to);
  for (const Instruction& i : site.body->code) {
    if (i.kind == Instruction::Kind::load) kept.loads.push_back(steps(site.body_operand(i.operand)));
  }
  if (grouped) {
    kept.loads.emplace_back(kept.steps.size(), ir::Dim(0));
    kept.loads.back()[s.group_axis] = 1;
  }
  return line_length(*g.map, g.a, kept, *site.body);
}

}  // namespace

void conv_lines_offers(const Site& site, const Settings& settings, Offers& out) {
  const auto s = conv_site(site, settings);
  if (s == nullptr) return;
  const auto length = length_of(site, *s);
  if (!length || *length < kernels::conv::tuning::shortest_line) return;
  out.offers.push_back(conv_offer("conv_lines", s, kernels::conv::cost_of_lines(s->sizes, *length, cpu_of(settings)), false));  // the last outputs of a line may be computed twice
}

}  // namespace ingot::backend::cpu
