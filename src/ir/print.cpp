// The text form of a graph, one node a line. See parse.cpp for the reader.
//
//   symbol B 1 8 64
//   origin "model.py" 12 "encoder.0" "aten.relu.default" "relu_1" "x = f(y)"
//   %0 = input() {name="x"} : f32[B, 16]
//   %1 = relu(%0) {} : f32[B, 16] @0 #3
//   output %1 "y" [0, 1]
//
// A graph that is an attribute stands as a quoted text.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>

#include <fmt/format.h>

#include "ir/graph.h"

namespace ingot::ir {

namespace {

class Printer {
 public:
  explicit Printer(const Graph& g) : g_(g) {}

  std::string run() {
    put("ingot-graph 1\n");
    for (const Symbol& s : g_.symbols) put("symbol {} {} {} {}\n", Dim::symbol(static_cast<SymbolId>(&s - g_.symbols.data())).text(g_.symbols), s.min, s.opt, s.max);
    for (const Origin& o : g_.origins) {
      put("origin ");
      quote(o.file);
      put(" {} ", o.line);
      for (const std::string* s : {&o.module, &o.target, &o.node}) {
        quote(*s);
        put(" ");
      }
      quote(o.code);
      put("\n");
    }
    for (const Node& node : g_.nodes) print_node(node);
    print_input_order();
    for (const Weight& w : g_.weights) {
      if (w.tied_to.empty() && !w.mutated) continue;
      put("weight %{} {} ", w.value, w.mutated ? "mutated" : "constant");
      quote(w.tied_to);
      put("\n");
    }
    for (const Output& o : g_.outputs) {
      put("output %{} ", o.value);
      quote(o.name);
      put(" ");
      attribute(to_attribute(o.order));
      if (o.to == Output::To::input) put(" to input");
      if (o.to == Output::To::weight) put(" to weight");
      if (o.to == Output::To::size) put(" to size");
      put("\n");
    }
    for (const Check& c : g_.checks) {
      put("check <{}> {} <{}> ", c.left.text(g_.symbols), c.kind == Check::equal ? "==" : "<=", c.right.text(g_.symbols));
      if (c.origin != none_id) put("@{} ", c.origin);
      quote(c.why);
      put("\n");
    }
    return std::move(out_);
  }

  std::string run(const Attribute& a) {
    attribute(a);
    return std::move(out_);
  }

 private:
  template <class... A>
  void put(fmt::format_string<A...> text, A&&... a) {
    fmt::format_to(std::back_inserter(out_), text, std::forward<A>(a)...);
  }

  // Inputs are numbered as their nodes stand, unless a line says otherwise.
  void print_input_order() {
    if (std::is_sorted(g_.inputs.begin(), g_.inputs.end(), [&](const Input& a, const Input& b) { return g_.values[a.value].producer < g_.values[b.value].producer; })) return;
    put("inputs");
    for (const Input& input : g_.inputs) put(" %{}", input.value);
    put("\n");
  }

  void quote(const std::string& s) {
    out_ += '"';
    for (char c : s) {
      if (c == '"' || c == '\\') {
        out_ += '\\';
        out_ += c;
      } else if (c == '\n') {
        out_ += "\\n";
      } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
        put("\\x{:02x}", static_cast<unsigned char>(c));
      } else {
        out_ += c;
      }
    }
    out_ += '"';
  }

  void dims(const Dims& d) {
    out_ += '[';
    for (size_t i = 0; i < d.size(); ++i) {
      if (i) out_ += ", ";
      out_ += d[i].text(g_.symbols);
    }
    out_ += ']';
  }

  void number(double v) {
    if (std::isnan(v)) {
      out_ += std::signbit(v) ? "-nan" : "nan";
    } else if (std::isinf(v)) {
      out_ += v > 0 ? "inf" : "-inf";
    } else {
      std::string t = fmt::format("{}", v);  // shortest text that reads back exactly
      out_ += t;
      if (t.find_first_of(".e") == std::string::npos) out_ += ".0";
    }
  }

  void attribute(const Attribute& a) {
    std::visit(
        [&](const auto& v) {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<T, std::monostate>) {
            out_ += "none";
          } else if constexpr (std::is_same_v<T, bool>) {
            out_ += v ? "true" : "false";
          } else if constexpr (std::is_same_v<T, int64_t>) {
            put("{}", v);
          } else if constexpr (std::is_same_v<T, double>) {
            number(v);
          } else if constexpr (std::is_same_v<T, std::string>) {
            quote(v);
          } else if constexpr (std::is_same_v<T, DType>) {
            out_ += name_of(v);
          } else if constexpr (std::is_same_v<T, Dim>) {
            put("<{}>", v.text(g_.symbols));
          } else if constexpr (std::is_same_v<T, Ref>) {
            put("&{}", v.index);
          } else if constexpr (std::is_same_v<T, AffineMap>) {
            map(v);
          } else if constexpr (std::is_same_v<T, GraphRef>) {
            put("graph ");
            quote(print(*v));
          } else {
            out_ += '[';
            for (size_t i = 0; i < v.size(); ++i) {
              if (i) out_ += ", ";
              attribute(v[i]);
            }
            out_ += ']';
          }
        },
        a.value);
  }

  // map([B, 4] <- [0 + 2*i0, i1] fill 0.0)
  void map(const AffineMap& m) {
    out_ += "map(";
    dims(m.dims);
    out_ += " <- [";
    for (size_t i = 0; i < m.axes.size(); ++i) {
      if (i) out_ += ", ";
      put("<{}>", m.axes[i].offset.text(g_.symbols));
      for (const AffineMap::Term& t : m.axes[i].terms) put(" + {}*i{}", t.coefficient, t.axis);
    }
    out_ += ']';
    if (m.fill) {
      out_ += " fill ";
      attribute(to_attribute(*m.fill));
    }
    out_ += ')';
  }

  void print_node(const Node& node) {
    for (size_t i = 0; i < node.out.size(); ++i) put("{}%{}", i ? ", " : "", node.out[i]);
    put("{}{}(", node.out.empty() ? "" : " = ", name_of(node.op));
    for (size_t i = 0; i < node.in.size(); ++i) put("{}%{}", i ? ", " : "", node.in[i]);
    out_ += ") {";
    bool first = true;
    for (const auto& [name, value] : node.attributes) {
      if (!first) out_ += ", ";
      first = false;
      out_ += name;
      out_ += '=';
      attribute(value);
    }
    out_ += "} :";
    for (size_t i = 0; i < node.out.size(); ++i) {
      const Type& t = g_.type(node.out[i]);
      put("{} {}", i ? "," : "", name_of(t.dtype));
      dims(t.dims);
    }
    if (node.origin != none_id) put(" @{}", node.origin);
    if (node.group != 0) put(" #{}", node.group);
    out_ += '\n';
  }

  const Graph& g_;
  std::string out_;
};

}  // namespace

std::string text_of(const Graph& g, const Attribute& a) { return Printer(g).run(a); }

std::string print(const Graph& g) { return Printer(g).run(); }

}  // namespace ingot::ir
