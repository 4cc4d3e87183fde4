// Offers attention over keys and values in pages: by blocks of queries (attention_pages), and query by query (attention_pages_queries).
#include <bit>

#include "backend/cpu/compile/offers.h"
#include "backend/cpu/kernels/attention/offer.h"
#include "backend/cpu/kernels/attention/run/tuning.h"

namespace ingot::backend::cpu {

namespace {

// Why no kernel of pages takes the site; nullopt: one does.
std::optional<Refusal> refused_pages(std::string_view kernel, const Site& site, const Attention& a) {
  auto refuse = [&](const char* reason) { return Refusal{kernel, Obstacle::types, reason}; };
  const Operand *table = site.find(Role::block_table), *key = site.find(Role::key);
  if (table == nullptr || key == nullptr) return refuse("keys are not in pages");
  if (table->type != ir::DType::i64) return refuse("the block table is not i64");
  if (site.find(Role::filled) == nullptr) return refuse("nothing says how many keys there are");
  if (a.type == ir::DType::f64) return refuse("scores are doubles");
  const ir::Dim& rows = key->layout.dims[key->layout.dims.size() - 2];
  if (!rows.is_constant() || rows.value() < kernels::attention::tuning::rows_of_group || !std::has_single_bit(static_cast<uint64_t>(rows.value())))
    return refuse("the keys of a page are not a power of two of 4 or more");
  return std::nullopt;
}

}  // namespace

void attention_pages_offers(const Site& site, const Settings& settings, Offers& out) {
  const auto* a = std::get_if<Attention>(&site.kernel);
  if (a == nullptr) return;
  if (auto refused = refused_pages("attention_pages", site, *a)) return out.refusals.push_back(std::move(*refused));
  out.offers.push_back(attention_offer("attention_pages", site, settings, kernels::attention::cost_by_blocks));
}

void attention_pages_queries_offers(const Site& site, const Settings& settings, Offers& out) {
  const auto* a = std::get_if<Attention>(&site.kernel);
  if (a == nullptr) return;
  auto refused = refused_pages("attention_pages_queries", site, *a);
  if (!refused) refused = refused_by_queries("attention_pages_queries", site, *a, settings);
  if (refused) return out.refusals.push_back(std::move(*refused));
  out.offers.push_back(attention_offer("attention_pages_queries", site, settings, kernels::attention::cost_by_queries));
}

}  // namespace ingot::backend::cpu
