// Offers attention over keys and values in pages: by blocks of queries (attention_pages), and query by query (attention_pages_queries); both also over keys of int8 with scales (.._scaled).
#include <bit>

#include "backend/cpu/compile/offers.h"
#include "backend/cpu/kernels/attention/offer.h"
#include "backend/cpu/kernels/attention/run/tuning.h"

namespace ingot::backend::cpu {

namespace {

// Why no kernel of pages takes the site; nullopt: one does.
std::optional<Refusal> refused_pages(std::string_view kernel, const Site& site, const Attention& a, bool scaled) {
  auto refuse = [&](const char* reason) { return Refusal{kernel, Obstacle::types, reason}; };
  const Operand *table = site.find(Role::block_table), *key = site.find(Role::key);
  if (table == nullptr || key == nullptr) return refuse("keys are not in pages");
  if (table->type != ir::DType::i64) return refuse("the block table is not i64");
  if (site.find(Role::filled) == nullptr) return refuse("nothing says how many keys there are");
  if (a.type == ir::DType::f64) return refuse("scores are doubles");
  if (scaled != (site.find(Role::scale) != nullptr)) return refuse(scaled ? "keys have no scales" : "keys have scales");
  for (const Role role : {Role::key, Role::value}) {
    const Operand* x = site.find(role);
    if (x == nullptr || x->type != key->type) return refuse("keys and values have different types");
    if (scaled ? x->type != ir::DType::i8 : !ir::is_float(x->type) || x->type == ir::DType::f64) return refuse("no kernel reads pages of this type");
  }
  const ir::Dim& rows = key->layout.dims[key->layout.dims.size() - 2];
  if (!rows.is_constant() || rows.value() < kernels::attention::tuning::rows_of_group || !std::has_single_bit(static_cast<uint64_t>(rows.value())))
    return refuse("the keys of a page are not a power of two of 4 or more");
  return std::nullopt;
}

void offer_blocks(std::string_view kernel, const Site& site, const Settings& settings, Offers& out, bool scaled) {
  const auto* a = std::get_if<Attention>(&site.kernel);
  if (a == nullptr) return;
  if (auto refused = refused_pages(kernel, site, *a, scaled)) return out.refusals.push_back(std::move(*refused));
  out.offers.push_back(attention_offer(kernel, site, settings, kernels::attention::cost_by_blocks));
}

void offer_queries(std::string_view kernel, const Site& site, const Settings& settings, Offers& out, bool scaled) {
  const auto* a = std::get_if<Attention>(&site.kernel);
  if (a == nullptr) return;
  auto refused = refused_pages(kernel, site, *a, scaled);
  if (!refused) refused = refused_by_queries(kernel, site, *a, settings);
  if (refused) return out.refusals.push_back(std::move(*refused));
  out.offers.push_back(attention_offer(kernel, site, settings, kernels::attention::cost_by_queries));
}

}  // namespace

void attention_pages_offers(const Site& site, const Settings& settings, Offers& out) { offer_blocks("attention_pages", site, settings, out, false); }
void attention_pages_scaled_offers(const Site& site, const Settings& settings, Offers& out) { offer_blocks("attention_pages_scaled", site, settings, out, true); }
void attention_pages_queries_offers(const Site& site, const Settings& settings, Offers& out) { offer_queries("attention_pages_queries", site, settings, out, false); }
void attention_pages_queries_scaled_offers(const Site& site, const Settings& settings, Offers& out) { offer_queries("attention_pages_queries_scaled", site, settings, out, true); }

}  // namespace ingot::backend::cpu
