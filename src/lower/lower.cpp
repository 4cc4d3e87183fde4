// The passes in their order.
#include "lower/lower.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/text.h"
#include "ir/written.h"
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
      {"nest_concats", nest_concats},                        // concat(a, b, c) beside concat(a, b) is concat(concat(a, b), c)
      {"concat_to_select", concat_to_select},                // RoPE's concatenation becomes a select between two reads
      {"sink_transposes", sink_transposes},                  // a linear layer between a transpose and its inverse works without them
      {"merge_linears", merge_linears},                      // query, key and value, or gate and up: one matmul
      {"simplify_linears", simplify},
      {"cse_again", cse},
      {"hoist_concats", hoist_concats},                      // joint attention: merged projections are joined once
      {"horizontal_fusion", horizontal_fusion},              // RoPE of queries and keys in one step
      {"simplify_again", simplify},
      {"merge_in_order", merge_in_order},                    // so that results of transposed and grouped convolutions are views too
      {"propagate_layout", propagate_layout},                // [N, H, W, C] behind convolutions
      {"simplify_layout", simplify},
      {"maps_before_concats", maps_before_concats},          // so that a product's kernel does what stands behind, inside the concatenation
      {"simplify_parts", simplify},
      {"fold_scales", fold_scales},                          // batch normalisation goes into the weights
      {"merge_branches", merge_branches},                    // a convolution beside a smaller one of the same input is one convolution
      {"maps_before_splits", maps_before_splits},            // so that a product's kernel does what stands behind
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

namespace {

// Operands of branches and loops that are weights are weights of the graphs inside, so that these can be packed and folded.
void hand_weights_in(ir::Graph& g, ir::Node& node, std::vector<ir::Graph>& inner) {
  const std::vector<ir::ValueId> written = ir::written_by_outputs(g);
  const size_t first = node.op == ir::Op::branch ? 1 : static_cast<size_t>(node.attributes.integer("carried"));
  for (size_t i = node.in.size(); i-- > first;) {
    const ir::Weight* w = g.weight_of(node.in[i]);
    if (w == nullptr || std::find(written.begin(), written.end(), w->value) != written.end()) continue;
    for (ir::Graph& graph : inner) graph.make_weight(node.op == ir::Op::branch ? i - 1 : i, *w);
    node.in.erase(node.in.begin() + static_cast<ptrdiff_t>(i));
  }
}

// Calls `run` on every graph inside a branch or a loop, the innermost first.
void for_inner_graphs(ir::Graph& g, const std::function<void(ir::Graph&)>& run) {
  for (ir::Node& node : g.nodes) {
    if (node.attributes.find("graphs") == nullptr) continue;
    std::vector<ir::Graph> inner;
    for (const ir::GraphRef& graph : node.attributes.graphs("graphs")) inner.push_back(*graph);
    hand_weights_in(g, node, inner);
    ir::List made;
    for (ir::Graph& graph : inner) {
      for_inner_graphs(graph, run);
      run(graph);
      made.push_back(ir::GraphRef(std::make_shared<const ir::Graph>(std::move(graph))));
    }
    node.attributes.set("graphs", std::move(made));
  }
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
  const std::vector<std::string_view> disabled = disabled_passes();
  auto run = [&](ir::Graph& g) {
    for (const Pass& pass : passes()) {
      if (std::find(disabled.begin(), disabled.end(), pass.name) != disabled.end()) continue;
      pass.run(g);
      g.remove_unused();
      report(pass.name, g);
    }
  };
  ir::Graph g = expand_operators(captured);
  report("expand", g);
  for_inner_graphs(g, run);
  run(g);
  return g;
}

}  // namespace ingot::lower
