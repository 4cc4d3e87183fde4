#include "backend/cpu/compile/offers.h"

#include "backend/compiler.h"

namespace ingot::backend::cpu {

ir::Dim step_in_memory(const ir::AffineMap& map, const StridedLayout& a, size_t index) {
  ir::Dim step = 0;
  for (size_t j = 0; j < map.axes.size(); ++j) {
    for (const ir::AffineMap::Term& t : map.axes[j].terms) {
      if (t.axis == index) step += a.strides[j] * ir::Dim(t.coefficient);
    }
  }
  return step;
}

namespace {

void check(const Target&, const Settings&) {}

Offers offers(const Site& site, const Target&, const Settings& settings) {
  Offers out;
  site.reading.forget();  // sites change between questions
  out.pass = pass_of(site, settings.machine);
#define X(name) name##_offers(site, settings, out);
#include "backend/cpu/run/kernels.def"
#undef X
  return out;
}

std::vector<DeviceCode> compile(std::span<const CodeUnit>, const Target&) { return {}; }

}  // namespace

extern const Compiler compiler;
const Compiler compiler{check, offers, compile};

}  // namespace ingot::backend::cpu
