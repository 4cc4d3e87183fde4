#include "verify/values.h"

#include "base/error.h"

namespace ingot::verification {

using namespace ir;

namespace {

// Rounded where the user says so; nextafter is a step of its type.
bool keeps_type(Op op) { return is_leaf(op) || op == Op::cast || op == Op::literal || op == Op::nextafter; }

}  // namespace

Values::Values(Graph graph, std::vector<int64_t> symbols) : graph_(std::move(graph)), symbols_(std::move(symbols)), data_(graph_.values.size()) {
  last_.assign(graph_.values.size(), 0);
  for (size_t n = 0; n < graph_.nodes.size(); ++n) {
    const Node& node = graph_.nodes[n];
    for (ValueId v : node.in) last_[v] = n;
    for (ValueId v : node.out) {
      DType& t = graph_.values[v].type.dtype;
      if (is_float(t) && !keeps_type(node.op)) t = DType::f64;
    }
  }
  for (const Output& o : graph_.outputs) last_[o.value] = graph_.nodes.size();
}

const Data& Values::up_to(ValueId v) {
  for (const size_t until = graph_.values[v].producer; next_ <= until; ++next_) {
    const Node& node = graph_.nodes[next_];
    try {
      evaluate_node(graph_, node, symbols_, data_);
    } catch (Error& e) {
      if (e.origin.empty() && node.origin < graph_.origins.size()) e.origin = graph_.origins[node.origin].text();
      throw;
    }
    for (ValueId in : node.in) {
      if (last_[in] == next_) data_[in] = {};
    }
  }
  return data_[v];
}

void Values::replace(ValueId v, Data data) {
  up_to(v);
  data_[v] = std::move(data);
}

}  // namespace ingot::verification
