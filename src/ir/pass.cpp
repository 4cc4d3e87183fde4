#include "ir/pass.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "base/error.h"
#include "base/text.h"

namespace ingot::ir {

namespace {

// The names in INGOT_DISABLE.
std::vector<std::string_view> disabled_names() {
  const char* list = std::getenv("INGOT_DISABLE");
  std::vector<std::string_view> names;
  for (std::string_view rest = list != nullptr ? list : ""; !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

}  // namespace

void check_disabled(const std::vector<PassInfo>& all) {
  for (const std::string_view name : disabled_names()) {
    const auto pass = std::find_if(all.begin(), all.end(), [&](const PassInfo& p) { return p.name == name; });
    if (pass == all.end()) {
      std::vector<std::string_view> known;
      for (const PassInfo& p : all) known.push_back(p.name);
      const std::string_view near = nearest(name, known);
      throw Error(Code::invalid_option, fmt::format("INGOT_DISABLE names \"{}\", which is not a pass", name))
          .fix(near.empty() ? fmt::format("the passes are {}", fmt::join(known, ", ")) : fmt::format("did you mean \"{}\"?", near));
    }
    if (pass->needed)
      throw Error(Code::invalid_option, fmt::format("INGOT_DISABLE names \"{}\", which cannot be left out: {}", name, pass->purpose)).fix("leave this name out of INGOT_DISABLE");
  }
}

bool is_disabled(const PassInfo& pass) {
  const std::vector<std::string_view> names = disabled_names();
  return std::find(names.begin(), names.end(), pass.name) != names.end();
}

void run_pass(std::string_view name, Graph& g, FunctionRef<void()> change, const PassObserver& observe) {
  const auto start = std::chrono::steady_clock::now();
  change();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  verify(g, Level::canonical);
  if (observe) observe(name, seconds, g);
}

}  // namespace ingot::ir
