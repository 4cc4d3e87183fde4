// Kernels that the user registered: a plan names code that runs with the user's rights.
#include <algorithm>

#include "base/error.h"
#include "plan/plan.h"

namespace ingot::plan {

std::vector<std::string> external_kernels(const Plan& plan) {
  std::vector<std::string> found;
  auto add = [&](const Function& f) {
    for (const Program& p : f.programs) {
      for (const Step& s : p.steps) {
        if (s.kernel == "external" && std::find(found.begin(), found.end(), s.label) == found.end()) found.push_back(s.label);
      }
    }
  };
  for (const Function& f : plan.functions) add(f);
  for (const ForTarget& t : plan.targets) add(t.prepare);
  return found;
}

void check_external(const Plan& plan, const std::vector<std::string>& kernels) {
  if (plan.runs_external || kernels.empty()) return;
  constexpr size_t max_shown = 8;
  std::string names;
  for (size_t k = 0; k < std::min(kernels.size(), max_shown); ++k) names += (k > 0 ? ", " : "") + kernels[k];
  if (kernels.size() > max_shown) names += fmt::format(" and {} more", kernels.size() - max_shown);
  throw Error(Code::invalid_input, fmt::format("the plan calls code that is not ingot's, the kernels {}, and is not trusted to", names))
      .fix("load it with trust \"code\" (`ingot run --trust code`) if you trust whoever made it as much as a program of theirs");
}

}  // namespace ingot::plan
