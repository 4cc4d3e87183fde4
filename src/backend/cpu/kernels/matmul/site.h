// What the offers of the matmul family share: a GEMM site as they read it, and the step that all of them make.
#pragma once
#include <memory>
#include <optional>

#include "backend/cpu/compile/offers.h"
#include "backend/cpu/kernels/matmul/run/cost.h"
#include "kernels/matmul/run/matmul_args.h"

namespace ingot::backend::cpu {

struct ProductSite {
  std::shared_ptr<const Gemm> gemm;
  const FusedBody* body;                  // null in a sketch
  // A's map as steps have it, and its sizes.
  struct Map {
    kernels::GemmMap map;
    std::vector<ir::Dim> sizes;
  };
  std::optional<Map> map = std::nullopt;
  bool in_order = false;
  std::optional<Packing> packing = std::nullopt;  // of B, that the offers wish for
  kernels::matmul::ProductSizes sizes = {};       // at the usual values of open sizes
};

// null: the site is of another kind, or the family refuses it: `refusal`.
std::shared_ptr<const ProductSite> product_site(const Site&, const Settings&, std::optional<Refusal>* refusal = nullptr);
// The same for products of two operands of bfloat16 in memory, B maybe as int8.
std::shared_ptr<const ProductSite> pairs_site(const Site&, const Settings&);

// The same for products of two matrices that are only stored, in the operands' type and with columns that are neighbours, and whose sums may have any order.
std::shared_ptr<const ProductSite> stored_site(const Site&, const Settings&);

// True if the body stores the sums as they are.
bool only_stores(const FusedBody&);

// Adds the offer of a kernel of the family, which takes so many nanoseconds.
void offer_product(std::string_view kernel, double nanoseconds, std::shared_ptr<const ProductSite>, const Site&, const Settings&, Offers&);

}  // namespace ingot::backend::cpu
