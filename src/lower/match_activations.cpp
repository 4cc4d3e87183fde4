// Activation functions that a model writes out, such as 0.5*x*(1 + tanh(...)), become the primitive of that function, which is faster and more accurate. Each can be
// written in many ways, so they are recognised by what they compute: an expression of one value and constants that equals the function at 48 points.
#include <algorithm>
#include <cmath>

#include "lower/passes.h"
#include "lower/rewrite.h"
#include "lower/tuning.h"

namespace ingot::lower {

namespace {

struct Candidate {
  Op op;
  double (*f)(double);
};
const Candidate candidates[] = {
    {Op::gelu, [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }},
    {Op::gelu_tanh, [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }},
    {Op::silu, [](double x) { return x / (1 + std::exp(-x)); }},
    {Op::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }},
};

double point(int i) { return -9.3 + 0.387 * i + 0.001 * i * i / 7; }

// The operations above a root, as a tree over one value and numbers.
class Tree {
 public:
  Tree(const Graph& g, ValueId root) : g_(g), dtype_(g.type(root).dtype), dims_(g.type(root).dims) { collect(root, 0); }

  // Values that may be the variable, nearest first.
  const std::vector<ValueId>& values() const { return values_; }

  std::optional<double> at(ValueId v, ValueId variable, double x) {
    computed_ = {{variable, x}};
    return at(v, 0);
  }

  static bool supported(Op op) {
    switch (op) {
      case Op::add:
      case Op::sub:
      case Op::mul:
      case Op::div:
      case Op::pow:
      case Op::neg:
      case Op::exp:
      case Op::tanh:
      case Op::erf:
      case Op::sigmoid: return true;
      default: return false;
    }
  }

 private:
  // Each value once: a graph whose branches meet again has exponentially many paths.
  std::optional<double> at(ValueId v, int depth) {
    for (const auto& [known, number] : computed_) {
      if (known == v) return number;
    }
    if (depth > tuning::max_activation_steps) return std::nullopt;
    std::optional<double> y = compute(v, depth);
    if (y) computed_.emplace_back(v, *y);
    return y;
  }

  std::optional<double> compute(ValueId v, int depth) {
    if (auto s = number_of(g_, v)) {
      if (std::holds_alternative<Dim>(s->value)) return std::nullopt;
      return s->to_double();
    }
    const Node& n = maker(g_, v);
    if (!supported(n.op) || g_.type(v).dtype != dtype_) return std::nullopt;
    auto left = at(n.in[0], depth + 1), right = left && n.in.size() == 2 ? at(n.in[1], depth + 1) : left;
    if (!left || !right) return std::nullopt;
    const double a = *left, b = *right;
    switch (n.op) {
      case Op::add: return a + b;
      case Op::sub: return a - b;
      case Op::mul: return a * b;
      case Op::div: return a / b;
      case Op::pow: return std::pow(a, b);
      case Op::neg: return -a;
      case Op::exp: return std::exp(a);
      case Op::tanh: return std::tanh(a);
      case Op::erf: return std::erf(a);
      default: return 1 / (1 + std::exp(-a));
    }
  }

  void collect(ValueId v, int depth) {
    if (depth > tuning::max_activation_steps || values_.size() > tuning::max_activation_values || number_of(g_, v)) return;
    if (g_.type(v).dtype != dtype_ || !(g_.type(v).dims == dims_)) return;
    if (std::find(values_.begin(), values_.end(), v) != values_.end()) return;
    values_.push_back(v);
    if (!supported(maker(g_, v).op)) return;
    for (ValueId i : maker(g_, v).in) collect(i, depth + 1);
  }

  const Graph& g_;
  ir::DType dtype_;
  const Dims& dims_;
  std::vector<ValueId> values_;
  std::vector<std::pair<ValueId, double>> computed_;  // with the variable at one point
};

std::optional<ValueId> recognise(Graph& g, ValueId root) {
  Tree tree(g, root);
  for (ValueId x : tree.values()) {
    if (x == root || !tree.at(root, x, point(0))) continue;
    for (const Candidate& c : candidates) {
      bool same = true;
      for (int i = 0; same && i < tuning::compared_points; ++i) {
        auto y = tree.at(root, x, point(i));
        double want = c.f(point(i));
        same = y && std::abs(*y - want) <= 1e-9 * (1 + std::abs(want));
      }
      if (same) return ir::map(c.op, {Handle(&g, x)}).id();
    }
  }
  return std::nullopt;
}

}  // namespace

void match_activations(Graph& g) {
  rewrite(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    if ((node.op != Op::mul && node.op != Op::div) || !is_float(g.type(node.out[0]).dtype)) return std::nullopt;
    // The node is added to the graph, so that the expression has a value; it is removed when it is replaced.
    ir::NodeId id = to.add_node(node.op, in, node.attributes, {g.type(node.out[0])});
    ValueId v = to.nodes[id].out[0];
    to.values[v].name = g.values[node.out[0]].name;
    auto found = recognise(to, v);
    return found ? *found : v;
  });
}

}  // namespace ingot::lower
