// Finds the input axis that gives each symbol of a function.
#include "plan/plan.h"

namespace ingot::plan {

std::vector<SymbolSource> symbol_sources(const Function& f) {
  const std::vector<std::optional<LinearSize>> linear = linear_sizes(f.sizes);
  std::vector<SymbolSource> out(f.symbols.size());
  for (uint32_t b = 0; b < f.bindings.size(); ++b) {
    const Binding& binding = f.bindings[b];
    if (binding.kind != Binding::Kind::input) continue;
    for (uint32_t axis = 0; axis < binding.dims.size(); ++axis) {
      const std::optional<LinearSize>& size = linear[binding.dims[axis]];
      if (!size) continue;
      SymbolSource& source = out[size->symbol];
      // Prefer an axis that is the symbol itself to a multiple of it.
      if (source.binding == UINT32_MAX || (size->plain() && !source.size.plain())) source = {b, axis, *size};
    }
  }
  return out;
}

}  // namespace ingot::plan
