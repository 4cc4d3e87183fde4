#include <algorithm>

#include "backend/cpu/compile/offers.h"
#include "backend/cpu/kernels/moments/run/tuning.h"
#include "kernels/moments/run/moments_args.h"

namespace ingot::backend::cpu {

namespace {

// Dims are in the order of memory, as far as it is known. True for rows whose elements do not lie side by side, as those of a channels-last image, unless they are short: a fused body
// reads them in short segments, three times. The kernel keeps 32 bytes for each row: many rows must be longer. Also true for group norms and long rows, which are read once, in memory
// order. A short row stays in the first-level cache, where a fused body can read it several times.
bool pays(const kernels::MomentsArgs& args, const ir::Dims& dims) {
  using namespace kernels::moments::tuning;
  int64_t rows = 1, length = 1, axes = 0;
  bool strided = false, known = true;
  for (size_t d = 0; d < dims.size(); ++d) {
    axes += args.reduced[d];
    if (dims[d] == ir::Dim(1)) continue;
    if (args.reduced[d] != 0) {
      known = known && dims[d].constant();
      length *= dims[d].constant().value_or(spread_row);
    } else {
      strided = strided || length != 1;
      rows = std::min(many_rows, rows * std::min(many_rows, dims[d].constant().value_or(strided ? many_rows : 1)));  // an open size before them is the batch
    }
  }
  if (strided) return length >= (rows < many_rows ? spread_row : spread_row_of_many);
  return known && (axes > 1 ? length >= group : length >= single_row || (length >= long_row && rows >= long_rows));
}

}  // namespace

void moments_offers(const Site& site, const Settings&, Offers& out) {
  constexpr std::string_view name = "moments";
  const auto* p = std::get_if<Plain>(&site.kernel);
  if (p == nullptr || p->kernel != name) return;
  if (!kernels::takes_moments_of(site.operands[0].type)) return out.refusals.push_back({name, Obstacle::types, "for float16, bfloat16 and float32"});
  if (is_sketch(site) && !pays(kernels::parse_moments(p->constants), site.operands[0].layout.dims)) {
    return out.refusals.push_back({name, Obstacle::cost, "a fused body is faster for short rows"});
  }
  offer_plain(site, {name}, "columns", out);
}

}  // namespace ingot::backend::cpu
