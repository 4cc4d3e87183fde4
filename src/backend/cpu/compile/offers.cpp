#include "backend/cpu/compile/offers.h"

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

double pass_of(const Site& site, const Machine& machine) {
  constexpr double bytes = 16;  // of an element in float32: the stored sum, what the body reads of it and beside it, the result
  if (site.body == nullptr) return 0;
  double results = 1;
  for (const std::vector<ir::Dim>& dims : {site.body->outer, site.body->row}) {
    for (const ir::Dim& d : dims) results *= static_cast<double>(site.usual(d).value_or(1));
  }
  return machine.launch + results * bytes / machine.memory;
}

namespace {

void check(const Target&, const Settings&) {}

Offers offers(const Site& site, const Target&, const Settings& settings) {
  Offers out;
  site.read.reset();  // sites change between questions
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
