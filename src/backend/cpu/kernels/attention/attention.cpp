#include "backend/cpu/compile/byte_code.h"
#include "backend/cpu/compile/offers.h"
#include "kernels/attention/run/attention_args.h"

namespace ingot::backend::cpu {

namespace {

EmittedStep emit_attention(const Attention& a, const FusedBody* mask, bool in_order, bool filled) {
  Emitted code;
  if (mask != nullptr) code = emit(*mask);
  kernels::AttentionArgs args;
  args.scale = a.scale;
  args.causal = a.causal;
  args.in_order = in_order;
  args.filled = filled;
  args.batch_rank = static_cast<uint8_t>(a.batch_rank);
  args.mask = code.code;
  EmittedStep step{"attention", kernels::serialise(args), {a.s, a.t, a.d, a.e}};
  step.sizes.insert(step.sizes.end(), code.sizes.begin(), code.sizes.end());
  return step;
}

}  // namespace

void attention_offers(const Site& site, const Settings& settings, Offers& out) {
  const auto* a = std::get_if<Attention>(&site.kernel);
  if (a == nullptr) return;
  if (site.find(Role::block_table) != nullptr) return out.refusals.push_back({"online softmax", Obstacle::types, "keys must be contiguous, not in blocks"});
  const bool in_order = settings.deterministic == Deterministic::batch;
  out.offers.push_back({.implementation = "online softmax", .emit = [a, &site, in_order] { return emit_attention(*a, site.body, in_order, site.find(Role::filled) != nullptr); }});
}

}  // namespace ingot::backend::cpu
