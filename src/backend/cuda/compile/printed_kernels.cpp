#include "backend/cuda/compile/printed_kernels.h"

#include <algorithm>

#include "backend/cuda/run/hardware.h"
#include "base/hash.h"

namespace ingot::backend::cuda {

namespace {

std::string_view rows_text() {
  static const std::string text = fmt::format(
      "// The parameters of steps that run side by side: each has a row of blocks.\ntemplate <class P> struct Rows {{ P of[{} / sizeof(P)]; }};\n", hardware::parameter_bytes);
  return text;
}

std::string text_of(const PrintedKernels::Kernel& k, ParametersOf of) {
  const std::string parameters = of == ParametersOf::step ? fmt::format("const __grid_constant__ {} p) {{\n", k.parameters)
                                                          : fmt::format("const __grid_constant__ Rows<{0}> joined) {{\n  const {0}& p = joined.of[blockIdx.y];\n", k.parameters);
  return fmt::format("extern \"C\" __global__ void {} @{}({}{}}}\n", k.attributes, k.suffix, parameters, k.body);
}

std::string named(std::string text, const std::string& name) {
  const std::string prefix = name + "_";
  for (size_t at = 0; (at = text.find('@', at)) != std::string::npos; at += prefix.size()) text.replace(at, 1, prefix);
  return text;
}

void add_libraries(CodeUnit& unit, const std::vector<CodeUnit::Library>& libraries) {
  for (const CodeUnit::Library& library : libraries) {
    if (std::find(unit.libraries.begin(), unit.libraries.end(), library) == unit.libraries.end()) unit.libraries.push_back(library);
  }
}

}  // namespace

std::string name_of(const std::string& name, ParametersOf of) { return of == ParametersOf::step ? name : name + "_rows"; }

std::string PrintedKernels::name(std::string_view prefix) const {
  std::string all = shared;
  for (const Kernel& k : kernels) all += text_of(k, ParametersOf::step);
  return fmt::format("{}_{:016x}", prefix, hash64(std::as_bytes(std::span(all.data(), all.size()))));
}

CodeUnit PrintedKernels::unit(const std::string& name, ParametersOf of) const {
  const std::string own = name_of(name, of);
  CodeUnit out{own, shared, {}};
  for (const Kernel& k : kernels) {
    out.text += text_of(k, of);
    out.kernels.push_back(fmt::format("{}_{}", own, k.suffix));
    add_libraries(out, k.libraries);
  }
  out.text = named(std::move(out.text), own);
  if (of == ParametersOf::rows) out.libraries.push_back(rows_text);
  return out;
}

CodeUnit PrintedKernels::unit(const std::string& name, ParametersOf of, size_t k) const {
  const std::string own = name_of(name, of), kernel = fmt::format("{}_{}", own, kernels[k].suffix);
  CodeUnit out{.name = kernel, .text = named(text_of(kernels[k], of), own), .kernels = {kernel}, .libraries = kernels[k].libraries, .shared = named(shared, own)};
  if (of == ParametersOf::rows) out.libraries.push_back(rows_text);
  return out;
}

}  // namespace ingot::backend::cuda
