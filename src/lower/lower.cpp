// The passes in their order, and what each is for.
#include "lower/lower.h"

#include <chrono>
#include <cstdlib>

#include "lower/passes.h"

namespace ingot::lower {

const std::vector<Pass>& passes() {
  static const std::vector<Pass> list = {
      {"merge_equal", merge_equal},            // the same computation twice
      {"compose_views", compose_views},        // a view of a view is one view
      {"index_views", index_views},            // gathers by arange are views
      {"lift_reshapes", lift_reshapes},        // reshape(linear(reshape(x))) works on x
      {"recognise_pointwise", recognise_pointwise},  // written-out silu, gelu
      {"rotate_halves", rotate_halves},        // RoPE's join becomes a choice between two reads
      {"simplify_masks", simplify_masks},      // masks that are always true, causal masks
      {"group_heads", group_heads},            // repeated key and value heads
      {"merge_linears", merge_linears},        // QKV, gate and up: one product
      {"compose_views_again", compose_views},
      {"merge_equal_again", merge_equal},
  };
  return list;
}

namespace {

bool disabled(std::string_view name) {
  const char* list = std::getenv("INGOT_DISABLE");
  if (list == nullptr) return false;
  std::string_view rest = list;
  while (!rest.empty()) {
    std::string_view one = rest.substr(0, rest.find(','));
    if (one == name) return true;
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
  }
  return false;
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
  ir::Graph g = expand_rows(captured);
  report("expand", g);
  for (const Pass& pass : passes()) {
    if (disabled(pass.name)) continue;
    pass.run(g);
    g.remove_unused();
    report(pass.name, g);
  }
  return g;
}

}  // namespace ingot::lower
