#include "api/plan_for.h"
#include "base/error.h"

namespace ingot::api {

std::shared_ptr<const plan::Plan> current(std::shared_ptr<const plan::Plan> plan) {
  if (plan->outdated) {
    throw Error(Code::version, "the plan's programs are of another version of ingot, and this runtime does not run them")
        .fix("load it once with libingot, which compiles it anew, and save it; or compile the model again with this version");
  }
  return plan;
}

std::shared_ptr<const plan::Plan> plan_for(std::shared_ptr<const plan::Plan> plan, std::string_view) { return plan; }

}  // namespace ingot::api
