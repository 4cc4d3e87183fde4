#include "backend/reference/compile/offers.h"
#include "backend/reference/kernels/attention/run/attention_args.h"
#include "kernels/run/kernel.h"

namespace ingot::backend::reference {

namespace {

EmittedStep emit_attention(const Attention& a, const Site& site) {
  EmittedStep step{"attention", {}, {}};
  FieldWriter constants;
  const AttentionConstants args{
      a.scale, a.causal, site.body != nullptr, static_cast<uint8_t>(a.batch_rank), site.find(Role::block_table) != nullptr, site.find(Role::filled) != nullptr};
  attention_fields(constants, args);
  if (site.body != nullptr) write_body(*site.body, constants, step.sizes);
  step.constants = std::move(constants.out);
  return step;
}

}  // namespace

void attention_offers(const Site& site, Offers& out) {
  const auto* a = std::get_if<Attention>(&site.kernel);
  if (a == nullptr) return;
  if (a->batch_rank + 2 > kernels::max_rank) return out.refusals.push_back({"softmax", Obstacle::types, "too many axes"});
  if (site.find(Role::scale) != nullptr) return out.refusals.push_back({"softmax", Obstacle::types, "keys have scales, by which it does not multiply"});
  out.offers.push_back({.implementation = "softmax", .emit = [a, &site] { return emit_attention(*a, site); }});
}

}  // namespace ingot::backend::reference
