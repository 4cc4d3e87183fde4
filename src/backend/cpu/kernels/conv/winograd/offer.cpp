// Offers convolutions 3 x 3 with stride 1 by Winograd's transformation.
#include "backend/cpu/kernels/conv/site.h"
#include "backend/cpu/kernels/conv/winograd/run/winograd.h"

namespace ingot::backend::cpu {

void conv_winograd_offers(const Site& site, const Settings& settings, Offers& out) {
  const auto s = conv_site(site, settings);
  if (s == nullptr) return;
  const size_t first_k = s->gemm.batch_rank + s->gemm.m_rank;
  // It reads only images whose channels are neighbours, and requires others to be copied; not for groups, which are faster along lines than their cost after a copy says.
  if (s->after_copy && s->group_axis != SIZE_MAX) return;
  const kernels::IndexMap& map = s->after_copy ? *s->after_copy : s->map;
  const kernels::conv::Lines lines = kernels::conv::lines_of(map, s->gemm.batch_rank, s->gemm.m_rank, s->group_axis);
  const kernels::conv::Cpu cpu = cpu_of(settings);
  const int64_t panel = s->sizes.n <= cpu.lanes ? cpu.lanes : 2 * cpu.lanes, panels = s->sizes.groups * ((s->sizes.n + panel - 1) / panel);
  const int64_t group_step = s->group_axis == SIZE_MAX ? 0 : static_cast<int64_t>(map.indices[s->group_axis].step);
  const auto plan = kernels::winograd_plan(map, first_k, lines, {s->sizes.groups, group_step, s->sizes.n, panels, panel, cpu.lanes, cpu.threads});
  if (!plan) return;
  Offer offer = conv_offer("conv_winograd", s, kernels::cost_of_winograd(*plan, cpu) + kernels::conv::cost_of_order(s->sizes, cpu), true);
  offer.wishes.insert(offer.wishes.end(), {s->after_copy ? copied_channels_innermost : channels_innermost, contiguous_rows});
  if (s->after_copy) offer.emit = nullptr;
  out.offers.push_back(std::move(offer));
}

}  // namespace ingot::backend::cpu
