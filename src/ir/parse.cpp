// Reads the text form of print.cpp. The text may come from a damaged file: whatever is wrong is an Error naming the line.
#include <algorithm>
#include <charconv>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/order.h"
#include "ir/graph.h"
#include "ir/tokens.h"

namespace ingot::ir {

namespace {

class Parser : Tokens {
 public:
  explicit Parser(std::string_view text) : Tokens(text) {}

  Graph run() {
    try {
      word("ingot-graph");
      if (integer() != 1) bad("a version other than 1");
      end_line();
      while (!at_end()) line();
    } catch (const Error& e) {
      if (has_failed()) throw;
      bad(e.message);  // a size expression or an attribute: say which line
    }
    check();
    return std::move(g_);
  }

 private:
  // What can be read may still be no graph: the file may have been changed in a way that leaves its lines whole.
  void check() {
    bool captured = std::any_of(g_.nodes.begin(), g_.nodes.end(), [](const Node& n) { return n.op == Op::call; });
    try {
      verify(g_, captured ? Level::captured : Level::canonical);
    } catch (const Error& e) {
      fail(Code::format, "graph text: {}", e.message);
    }
  }

  Dim dim_text(std::string_view t) {
    // Nearly all sizes are plain numbers.
    int64_t v = 0;
    if (auto [end, error] = std::from_chars(t.data(), t.data() + t.size(), v); error == std::errc() && end == t.data() + t.size()) return v;
    return dim_text(t, [&](std::string_view n) -> SymbolId {
      auto found = symbols_.find(n);
      if (found == symbols_.end()) bad(fmt::format("unknown size \"{}\"", n));
      return found->second;
    });
  }
  static Dim dim_text(std::string_view t, const std::function<SymbolId(std::string_view)>& resolve) { return parse_dim(t, resolve); }
  Dims dims() {
    want("[");
    Dims out;
    if (take("]")) return out;
    do out.push_back(dim_text(until(",]")));
    while (take(","));
    want("]");
    return out;
  }
  Dim angle() {
    want("<");
    Dim d = dim_text(until(">"));
    want(">");
    return d;
  }
  DType dtype() {
    std::string_view n = name();
    auto t = dtype_from_name(n);
    if (!t) bad(fmt::format("unknown dtype \"{}\"", n));
    return *t;
  }
  ValueId value() {
    want("%");
    uint32_t v = small();
    auto found = values_.find(v);
    if (found == values_.end()) bad(fmt::format("value %{} is not made before", v));
    return found->second;
  }

  Attribute attribute(int depth) {
    if (depth > 50) bad("nested too deep");
    char c = peek();
    if (c == '"') return quoted();
    if (c == '<') return angle();
    if (c == '&') {
      want("&");
      return Ref{small()};
    }
    if (c == '[') {
      want("[");
      List list;
      if (take("]")) return list;
      do list.push_back(attribute(depth + 1));
      while (take(","));
      want("]");
      return list;
    }
    if (c == '-' || (c >= '0' && c <= '9')) return number();
    if (starts_with("map(")) return map();
    std::string_view n = name();
    if (n == "none") return {};
    if (n == "graph") return graph();
    if (n == "true") return true;
    if (n == "false") return false;
    if (n == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (n == "inf") return std::numeric_limits<double>::infinity();
    if (auto t = dtype_from_name(n)) return *t;
    bad(fmt::format("unknown word \"{}\"", n));
  }

  // Graphs inside graphs are few; a damaged file may say otherwise.
  Attribute graph() {
    constexpr int max_depth = 16;
    if (depth_ == max_depth) bad("graphs are nested too deep");
    const std::string text = quoted();
    Parser inner(text);
    inner.depth_ = depth_ + 1;
    return GraphRef(std::make_shared<const Graph>(inner.run()));
  }

  Attribute number() {
    if (take("-inf")) return -std::numeric_limits<double>::infinity();
    if (take("-nan")) return -std::numeric_limits<double>::quiet_NaN();
    const std::string_view t = run_of("+-.0123456789e");
    if (t.find_first_of(".e") == std::string_view::npos) return integer();
    double v = 0;
    auto [stop, error] = std::from_chars(t.data(), t.data() + t.size(), v);
    if (error != std::errc() || stop != t.data() + t.size()) bad("a number expected");
    skip(t.size());
    return v;
  }

  Attribute map() {
    want("map(");
    AffineMap m;
    m.dims = dims();
    want("<-");
    want("[");
    if (!take("]")) {
      do {
        AffineMap::Axis axis;
        axis.offset = angle();
        while (take("+")) {
          int64_t coefficient = integer();
          want("*i");
          axis.terms.push_back({small(), coefficient});
        }
        m.axes.push_back(std::move(axis));
      } while (take(","));
      want("]");
    }
    if (take("fill")) {
      Attributes holder;
      holder.set("fill", attribute(0));
      m.fill = holder.scalar("fill");
    }
    want(")");
    return m;
  }

  void line() {
    if (peek() == '\n') return end_line();
    if (peek() == '%') return node();
    const size_t begin = position();
    const std::string_view kind = name();
    if (kind == "symbol") {
      symbol();
    } else if (kind == "origin") {
      new_origin();
    } else if (kind == "output") {
      output();
    } else if (kind == "inputs") {
      order_of_inputs();
    } else if (kind == "weight" && peek() == '%') {
      weight();
    } else if (kind == "check") {
      size_check();
    } else {
      go_back(begin);
      return node();
    }
    end_line();
  }

  void symbol() {
    Symbol s;
    dim_text(until(" "), [&](std::string_view n) {
      s.name = n;
      return SymbolId{0};
    });
    if (s.name.empty()) bad("a name expected");
    s.min = integer();
    s.opt = integer();
    s.max = integer();
    if (!symbols_.emplace(s.name, static_cast<SymbolId>(g_.symbols.size())).second) bad("a symbol named twice");
    g_.symbols.push_back(std::move(s));
  }

  void new_origin() {
    Origin o;
    o.file = quoted();
    o.line = static_cast<int>(std::min<uint32_t>(small(), INT32_MAX));
    o.module = quoted();
    o.target = quoted();
    o.node = quoted();
    o.code = quoted();
    g_.origins.push_back(std::move(o));
  }

  void output() {
    Output o;
    o.value = value();
    o.name = quoted();
    Attributes holder;
    holder.set("order", attribute(0));
    o.order = holder.integers("order");
    if (peek() == 't') {
      if (name() != "to") bad("an output goes \"to\" somewhere");
      std::string_view where = name();
      if (where != "input" && where != "weight" && where != "size") bad("an output goes to an input, a weight or a size");
      o.to = where == "input" ? Output::To::input : where == "weight" ? Output::To::weight : Output::To::size;
    }
    g_.outputs.push_back(std::move(o));
  }

  void order_of_inputs() {
    std::vector<Input> ordered;
    while (peek() == '%') {
      ValueId v = value();
      auto found = std::find_if(g_.inputs.begin(), g_.inputs.end(), [&](const Input& i) { return i.value == v; });
      if (found == g_.inputs.end()) bad("no such input");
      ordered.push_back(std::move(*found));
      g_.inputs.erase(found);
    }
    if (!g_.inputs.empty()) bad("an input is left out");
    g_.inputs = std::move(ordered);
  }

  void weight() {
    ValueId v = value();
    std::string_view how = name();
    std::string tied = quoted();
    bool found = false;
    for (Weight& w : g_.weights) {
      if (w.value != v) continue;
      found = true;
      if (how != "mutated" && how != "constant") bad("\"mutated\" or \"constant\" expected");
      w.mutated = how == "mutated";
      w.tied_to = tied;
    }
    if (!found) bad("no such weight");
  }

  void size_check() {
    Check c;
    c.left = angle();
    c.kind = take("==") ? Check::equal : (want("<="), Check::less_equal);
    c.right = angle();
    if (take("@")) c.origin = origin();
    c.why = quoted();
    g_.checks.push_back(std::move(c));
  }

  OriginId origin() {
    uint32_t o = small();
    if (o >= g_.origins.size()) bad("an origin that does not exist");
    return o;
  }

  void node() {
    std::vector<uint32_t> out;
    if (peek() == '%') {
      do {
        want("%");
        out.push_back(small());
      } while (take(","));
      want("=");
    }
    std::string_view n = name();
    auto op = op_from_name(n);
    if (!op) bad(fmt::format("unknown operation \"{}\"", n));
    std::vector<ValueId> in;
    want("(");
    if (!take(")")) {
      do in.push_back(value());
      while (take(","));
      want(")");
    }
    Attributes attributes;
    want("{");
    if (!take("}")) {
      do {
        std::string key(name());
        want("=");
        if (attributes.find(key) != nullptr) bad(fmt::format("attribute \"{}\" appears twice", key));
        attributes.set(std::move(key), attribute(0));
      } while (take(","));
      want("}");
    }
    want(":");
    std::vector<Type> types;
    for (size_t i = 0; i < out.size(); ++i) {
      if (i) want(",");
      DType t = dtype();
      types.push_back({t, dims()});
    }
    g_.current_origin = take("@") ? origin() : none_id;
    g_.current_group = take("#") ? small() : 0;
    if (is_leaf(*op)) {
      if (!in.empty() || types.size() != 1) bad("a leaf with operands or several results");
      const std::string& leaf = attributes.string("name");
      std::vector<int64_t> order = attributes.find("order") != nullptr ? attributes.integers("order") : std::vector<int64_t>();
      if (!order.empty() && !is_permutation(order, types[0].dims.size())) bad(fmt::format("the order of \"{}\" is not a permutation of its axes", leaf));
      ValueId v;
      if (*op == Op::input) {
        v = g_.add_input(leaf, types[0], std::move(order));
      } else {
        Weight w;
        w.name = leaf;
        w.order = std::move(order);
        v = g_.add_weight(std::move(w), types[0]);
      }
      define(out[0], v);
    } else {
      NodeId id = g_.add_node(*op, std::move(in), std::move(attributes), std::move(types));
      for (size_t i = 0; i < out.size(); ++i) define(out[i], g_.nodes[id].out[i]);
    }
    g_.current_origin = none_id;
    g_.current_group = 0;
    end_line();
  }

  void define(uint32_t number, ValueId v) {
    if (!values_.emplace(number, v).second) bad(fmt::format("value %{} is made twice", number));
  }

  int depth_ = 0;  // of graphs inside graphs
  Graph g_;
  std::map<std::string, SymbolId, std::less<>> symbols_;
  std::map<uint32_t, ValueId> values_;
};

}  // namespace

Graph parse(std::string_view text) { return Parser(text).run(); }

}  // namespace ingot::ir
