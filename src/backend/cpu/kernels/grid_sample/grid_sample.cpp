#include <algorithm>

#include "backend/cpu/compile/offers.h"
#include "kernels/grid_sample/run/grid_sample_args.h"

namespace ingot::backend::cpu {

void grid_sample_offers(const Site& site, const Settings&, Offers& out) {
  const auto* plain = std::get_if<Plain>(&site.kernel);
  if (plain == nullptr || plain->kernel != "grid_sample") return;
  auto refuse = [&](std::string reason) { out.refusals.push_back({"blocks of points", Obstacle::types, std::move(reason)}); };
  if (kernels::parse_grid_sample(plain->constants).axes != 2) return refuse("images of two axes only");
  if (std::any_of(site.operands.begin(), site.operands.end(), [](const Operand& o) { return o.type != ir::DType::f32; })) return refuse("float32 only");
  offer_plain(site, {"grid_sample"}, "blocks of points", out);
}

}  // namespace ingot::backend::cpu
