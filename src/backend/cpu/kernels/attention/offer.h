// The offers of attention's kernels, which differ in how they go through keys.
#pragma once
#include <optional>

#include "backend/cpu/kernels/attention/run/cost.h"
#include "backend/offer.h"
#include "backend/settings.h"

namespace ingot::backend::cpu {

using CostOfAttention = double (*)(const kernels::attention::Sizes&, const Machine&);
Offer attention_offer(std::string_view kernel, const Site&, const Settings&, CostOfAttention);
// Why a kernel that goes query by query does not take the site, whose kernel is the Attention; nullopt: it does.
std::optional<Refusal> refused_by_queries(std::string_view kernel, const Site&, const Attention&, const Settings&);

}  // namespace ingot::backend::cpu
