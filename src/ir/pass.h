// A pipeline is a list of passes. Each changes a canonical graph into another that computes the same. Lower's and compile's pipelines are such lists.
#pragma once
#include <functional>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "ir/graph.h"

namespace ingot::ir {

struct PassInfo {
  std::string_view name, purpose;
  bool needed = false;  // without it some graphs cannot be compiled, so INGOT_DISABLE may not name it
};

// A pass that is given what it works for, such as a backend.
template <class... Given>
struct Pass : PassInfo {
  void (*run)(Graph&, const Given&...);
};

// Called after each pass with its name and seconds.
using PassObserver = std::function<void(std::string_view name, double seconds, const Graph&)>;

// Error (invalid_option) if INGOT_DISABLE names a pass that is not among these, or one that is needed.
void check_disabled(const std::vector<PassInfo>& all);
// True if INGOT_DISABLE names the pass.
bool is_disabled(const PassInfo&);

// Verifies the graph after `change` and calls the observer.
void run_pass(std::string_view name, Graph&, FunctionRef<void()> change, const PassObserver&);

// Runs the passes in order, without those that INGOT_DISABLE names.
template <class... Given>
void run_passes(Graph& g, const std::vector<Pass<Given...>>& passes, const PassObserver& observe, const Given&... given) {
  for (const Pass<Given...>& pass : passes) {
    if (is_disabled(pass)) continue;
    auto change = [&] {
      pass.run(g, given...);
      g.remove_unused();
    };
    run_pass(pass.name, g, change, observe);
  }
}

}  // namespace ingot::ir
