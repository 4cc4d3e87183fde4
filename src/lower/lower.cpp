// The passes in their order.
#include "lower/lower.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/text.h"
#include "lower/passes.h"

namespace ingot::lower {

const std::vector<Pass>& passes() {
  static const std::vector<Pass> list = {
      {"simplify", simplify},                                // composes views, removes neutral elements, folds literals
      {"update_to_select", update_to_select},                // x[2:4] = v becomes a select
      {"sink_reshapes", sink_reshapes},                      // a linear layer on [B*S, K] works on [B, S, K]
      {"index_arithmetic", index_arithmetic},                // values that depend on indices alone become index expressions
      {"simplify_indices", simplify},
      {"cse", cse},                                          // common subexpressions
      {"match_activations", match_activations},              // written-out GELU, SiLU, sigmoid, softplus
      {"match_attention", match_attention},                  // matmul, scale, mask, softmax, matmul
      {"simplify_attention", simplify},
      {"causal_masks", causal_masks},                        // the causal part of a mask becomes a flag
      {"grouped_query_attention", grouped_query_attention},  // repeated keys and values are read in place
      {"concat_to_select", concat_to_select},                // RoPE's concatenation becomes a select between two reads
      {"sink_transposes", sink_transposes},                  // a linear layer between a transpose and its inverse works without them
      {"merge_linears", merge_linears},                      // query, key and value, or gate and up: one matmul
      {"simplify_linears", simplify},
      {"cse_again", cse},
      {"horizontal_fusion", horizontal_fusion},              // RoPE of queries and keys in one step
      {"simplify_again", simplify},
      {"propagate_layout", propagate_layout},                // [N, H, W, C] behind convolutions
      {"simplify_layout", simplify},
      {"fold_scales", fold_scales},                          // batch normalisation goes into the weights
      {"precise_constants", precise_constants},              // functions of constants are computed in float64
      {"rounding", rounding},                                // half values that comparisons depend on; last, since simplify removes equal casts
  };
  return list;
}

namespace {

// The passes that INGOT_DISABLE names.
std::vector<std::string_view> disabled_passes() {
  const char* list = std::getenv("INGOT_DISABLE");
  std::vector<std::string_view> found, known;
  for (const Pass& p : passes()) known.push_back(p.name);
  for (std::string_view rest = list != nullptr ? list : ""; !rest.empty();) {
    std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    if (one.empty()) continue;
    if (std::find(known.begin(), known.end(), one) == known.end()) {
      Error problem(Code::invalid_option, fmt::format("INGOT_DISABLE names \"{}\", which is no pass", one));
      std::string_view near = nearest(one, known);
      throw problem.fix(near.empty() ? fmt::format("the passes are {}", fmt::join(known, ", ")) : fmt::format("did you mean \"{}\"?", near));
    }
    found.push_back(one);
  }
  return found;
}

}  // namespace

ir::Graph lower(const ir::Graph& captured, const std::function<void(std::string_view, double, const ir::Graph&)>& observe) {
  auto now = [] { return std::chrono::steady_clock::now(); };
  auto start = now();
  auto report = [&](std::string_view name, const ir::Graph& g) {
    double seconds = std::chrono::duration<double>(now() - start).count();
    ir::verify(g, ir::Level::canonical);
    if (observe) observe(name, seconds, g);
    start = now();
  };
  std::vector<std::string_view> disabled = disabled_passes();
  ir::Graph g = expand_operators(captured);
  report("expand", g);
  for (const Pass& pass : passes()) {
    if (std::find(disabled.begin(), disabled.end(), pass.name) != disabled.end()) continue;
    pass.run(g);
    g.remove_unused();
    report(pass.name, g);
  }
  return g;
}

}  // namespace ingot::lower
