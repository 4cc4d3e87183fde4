// Offers attention by blocks of queries (attention), and query by query (attention_queries).
#include <algorithm>

#include "backend/cpu/compile/byte_code.h"
#include "backend/cpu/compile/offers.h"
#include "backend/cpu/kernels/attention/offer.h"
#include "kernels/attention/run/attention_args.h"

namespace ingot::backend::cpu {

namespace {

namespace costs = kernels::attention;

EmittedStep emit_attention(std::string_view kernel, const Attention& a, const FusedBody* mask, bool in_order, bool filled) {
  Emitted code;
  if (mask != nullptr) code = emit(*mask);
  kernels::AttentionArgs args;
  args.scale = a.scale;
  args.causal = a.causal;
  args.in_order = in_order;
  args.filled = filled;
  args.batch_rank = static_cast<uint8_t>(a.batch_rank);
  args.mask = code.code;
  EmittedStep step{std::string(kernel), kernels::serialise(args), {a.s, a.t, a.d, a.e}};
  step.sizes.insert(step.sizes.end(), code.sizes.begin(), code.sizes.end());
  return step;
}

// The usual sizes.
costs::Sizes sizes_of(const Site& site, const Attention& a) {
  auto usual = [&](const ir::Dim& d) { return site.usual(d).value_or(1); };
  const Operand* key = site.find(Role::key);
  costs::Sizes out{1, usual(a.s), usual(a.t), usual(a.d), usual(a.e), key != nullptr ? key->type : a.type};
  const Operand* query = site.find(Role::query);  // none in the first sketch
  for (size_t b = 0; query != nullptr && b < a.batch_rank; ++b) out.batch *= usual(query->layout.dims[b]);
  return out;
}

}  // namespace

Offer attention_offer(std::string_view kernel, const Site& site, const Settings& settings, CostOfAttention cost) {
  const auto& a = std::get<Attention>(site.kernel);
  const bool in_order = settings.deterministic == Deterministic::batch;
  return {.implementation = kernel, .cost = cost(sizes_of(site, a), settings.machine), .emit = [kernel, &a, &site, in_order] {
            return emit_attention(kernel, a, site.body, in_order, site.find(Role::filled) != nullptr);
          }};
}

std::optional<Refusal> refused_by_queries(std::string_view kernel, const Site& site, const Attention& a, const Settings& settings) {
  if (settings.deterministic == Deterministic::batch) return Refusal{kernel, Obstacle::types, "the order of sums depends on the number of queries"};
  if (a.s.is_constant() && costs::cost_by_queries(sizes_of(site, a), settings.machine) > costs::cost_by_blocks(sizes_of(site, a), settings.machine))
    return Refusal{kernel, Obstacle::cost, "for few queries"};
  for (Role role : {Role::key, Role::value}) {
    const Operand* x = site.find(role);
    if (x != nullptr && is_placed(x->layout) && !(x->layout.strides.back() == ir::Dim(1))) return Refusal{kernel, Obstacle::types, "rows have gaps"};
  }
  return std::nullopt;
}

void attention_offers(const Site& site, const Settings& settings, Offers& out) {
  if (!std::holds_alternative<Attention>(site.kernel)) return;
  if (site.find(Role::block_table) != nullptr) return out.refusals.push_back({"attention", Obstacle::types, "keys must be contiguous, not in blocks"});
  out.offers.push_back(attention_offer("attention", site, settings, costs::cost_by_blocks));
}

void attention_queries_offers(const Site& site, const Settings& settings, Offers& out) {
  const auto* a = std::get_if<Attention>(&site.kernel);
  if (a == nullptr) return;
  if (site.find(Role::block_table) != nullptr) return out.refusals.push_back({"attention_queries", Obstacle::types, "keys must be contiguous, not in blocks"});
  if (auto refused = refused_by_queries("attention_queries", site, *a, settings)) return out.refusals.push_back(std::move(*refused));
  out.offers.push_back(attention_offer("attention_queries", site, settings, costs::cost_by_queries));
}

}  // namespace ingot::backend::cpu
