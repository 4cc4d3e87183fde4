#include "backend/cuda/compile/offers.h"

#include <algorithm>
#include <map>

#include "backend/cuda/compile/matrix_text.h"
#include "backend/cuda/compile/nvrtc.h"
#include "backend/cuda/compile/prelude.h"
#include "base/error.h"
#include "base/own_file.h"

namespace ingot::backend::cuda {

std::vector<std::string> numbered(const std::string& name, size_t count) {
  std::vector<std::string> out;
  for (size_t k = 0; k < count; ++k) out.push_back(fmt::format("{}_{}", name, k));
  return out;
}

namespace {

void check(const Target& target, const Settings& settings) {
  if (settings.deterministic == Deterministic::run) return;
  throw Error(
      Code::unsupported,
      fmt::format("deterministic=\"batch\" is not to be had on {}: the library that multiplies matrices there chooses its order of sums by the number of rows", target.text()))
      .fix("compile for \"cpu\", or with deterministic=\"run\"");
}

Offers offers(const Site& site, const Target& target, const Settings& settings) {
  Offers out;
#define X(name) name##_offers(site, target, settings, out);
#include "backend/cuda/run/kernels.def"
#undef X
  return out;
}

// A few units a call of NVRTC: each call reads the prelude anew, and calls run side by side.
std::vector<DeviceCode> compile(std::span<const CodeUnit> units, const Target& target) {
  constexpr size_t together = 4;
  std::map<std::string_view, const CodeUnit*> distinct;
  for (const CodeUnit& u : units) distinct.try_emplace(u.name, &u);
  std::vector<CompileJob> jobs;
  std::vector<DeviceCode> out;
  std::string text;
  std::vector<std::string> kernels;
  size_t count = 0;
  bool special = false;
  decltype(CodeUnit::libraries) libraries;
  auto flush = [&] {
    if (count == 0) return;
    std::string head(prelude());
    for (const auto& library : libraries) head += library();
    for (bool ptx : {false, true}) {
      jobs.push_back({head + text, target.architecture, ptx ? CompileJob::Form::ptx : CompileJob::Form::cubin, special});
      out.push_back({ptx, target.architecture, kernels, {}});
    }
    text.clear();
    kernels.clear();
    count = 0;
    special = false;
    libraries.clear();
  };
  for (const auto& [name, unit] : distinct) {
    // Texts with matrix instructions are long, and use what only this architecture has.
    bool matrices = std::find(unit->libraries.begin(), unit->libraries.end(), &matrix_instructions) != unit->libraries.end();
    if (matrices) flush();
    special = matrices;
    text += unit->text;
    for (const auto& library : unit->libraries) {
      if (std::find(libraries.begin(), libraries.end(), library) == libraries.end()) libraries.push_back(library);
    }
    kernels.insert(kernels.end(), unit->kernels.begin(), unit->kernels.end());
    if (++count == together || special) flush();
  }
  flush();
  if (jobs.empty()) return out;
  Compiled compiled = compile(jobs, {0, cache_folder("code")});
  if (!compiled.cache_problem.empty()) say_once(compiled.cache_problem);
  for (size_t k = 0; k < out.size(); ++k) out[k].image = std::move(compiled.code[k]);
  return out;
}

}  // namespace

extern const Compiler compiler;
const Compiler compiler{check, offers, compile};

}  // namespace ingot::backend::cuda
