// The passes in their order, and what each is for.
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
      {"simplify", simplify},                  // views composed, neutral elements, literals
      {"updates", updates},                    // x[2:4] = v becomes a select
      {"leading_axes", leading_axes},          // reshape(linear(reshape(x))) works on x
      {"index_arithmetic", index_arithmetic},  // what only depends on indices is written as indices
      {"simplify_indices", simplify},
      {"common", common},                      // the same computation twice
      {"functions", functions},                // written-out gelu, silu
      {"attention", attention},                // written-out attention
      {"simplify_attention", simplify},
      {"masks", masks},                        // the causal part of a mask becomes a flag
      {"grouped_heads", grouped_heads},        // repeated keys and values are read in place
      {"joins", joins},                        // RoPE's join becomes a choice between two reads
      {"turned_rows", turned_rows},            // a batch behind the sequence: linear layers work on it in front
      {"linears", linears},                    // query, key and value; gate and up: one matmul
      {"simplify_linears", simplify},
      {"common_again", common},
      {"siblings", siblings},                  // RoPE of queries and keys at once
      {"simplify_again", simplify},
      {"memory_order", memory_order},          // after convolutions: [N, H, W, C]
      {"simplify_order", simplify},
      {"scales", scales},                      // batch normalisation goes into the weights
      {"constants", constants},                // frequencies of position embeddings: functions in float64
      {"rounding", rounding},                  // half values that comparisons depend on: last, as equal casts would go
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
  ir::Graph g = expand_rows(captured);
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
