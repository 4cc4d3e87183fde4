#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/draw.h"

namespace ingot::ir {

namespace {

constexpr double line_height = 15, letter = 6.7, gap = 24, between_layers = 46;

struct Box {
  std::vector<std::string> lines;
  std::string tooltip, kind;
  std::vector<size_t> from;  // boxes whose results it reads
  size_t layer = 0;
  double x = 0, y = 0, width = 0, height = 0;
  double middle() const { return x + width / 2; }
};

std::string escaped(std::string_view text) {
  std::string s;
  for (char c : text) {
    switch (c) {
      case '<': s += "&lt;"; break;
      case '>': s += "&gt;"; break;
      case '&': s += "&amp;"; break;
      case '"': s += "&quot;"; break;
      default: s += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return s;
}

// As it stands between quotes in Graphviz's language.
std::string quoted(std::string_view text) {
  std::string s;
  for (char c : text) {
    if (c == '"' || c == '\\') s += '\\';
    s += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return s;
}

std::string cut(std::string text, size_t max_length = 48) {
  if (text.size() <= max_length) return text;
  size_t end = max_length;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // between two letters of UTF-8
  return text.substr(0, end) + "...";
}

class Drawing {
 public:
  explicit Drawing(const Graph& g) : g_(g), box_of_(g.values.size(), none) {
    for (const Node& n : g.nodes) add(n);
    for (const Output& o : g.outputs) {
      Box& b = boxes_.emplace_back();
      b.lines = {"output " + cut(o.name)};
      b.kind = "end";
      read(b, o.value);
      finish(b);
    }
    place();
  }

  std::string svg() const {
    std::string s;
    auto put = [&]<class... A>(fmt::format_string<A...> format, A&&... a) { s += fmt::format(format, std::forward<A>(a)...); };
    double width = 0, height = 0;
    for (const Box& b : boxes_) width = std::max(width, b.x + b.width), height = std::max(height, b.y + b.height);
    put("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\">\n", width + gap, height + gap);
    s += "<style>text{font:11px monospace}rect{fill:#eef2f7;stroke:#64748b;rx:4px}.end{fill:#d9f2df}.dear{fill:#fde3c8}path{fill:none;stroke:#94a3b8}</style>\n";
    for (const Box& b : boxes_) {
      for (size_t f : b.from) {
        const Box& a = boxes_[f];
        const double bottom = a.y + a.height, bend = (b.y - bottom) / 2;
        put("<path d=\"M{:.1f} {:.1f} C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}\"/>\n", a.middle(), bottom, a.middle(), bottom + bend, b.middle(), b.y - bend, b.middle(), b.y);
      }
    }
    for (const Box& b : boxes_) {
      put("<g><title>{}</title><rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>", escaped(b.tooltip), b.kind, b.x, b.y, b.width, b.height);
      for (size_t i = 0; i < b.lines.size(); ++i) {
        put("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>", b.x + 8, b.y + line_height * static_cast<double>(i + 1), i == 0 ? " font-weight=\"bold\"" : "", escaped(b.lines[i]));
      }
      s += "</g>\n";
    }
    return s + "</svg>\n";
  }

  std::string dot() const {
    std::string s = "digraph graph_of_ingot {\nnode [shape=box, style=filled, fillcolor=\"#eef2f7\", fontname=monospace, fontsize=11];\n";
    for (const Box& b : boxes_) {
      const auto number = &b - boxes_.data();
      std::string label;
      for (const std::string& line : b.lines) label += quoted(line) + "\\l";  // \l: to the left
      const char* colour = b.kind == "end" ? ", fillcolor=\"#d9f2df\"" : b.kind == "dear" ? ", fillcolor=\"#fde3c8\"" : "";
      s += fmt::format("b{} [label=\"{}\", tooltip=\"{}\"{}];\n", number, label, quoted(b.tooltip), colour);
      for (size_t f : b.from) s += fmt::format("b{} -> b{};\n", f, number);
    }
    return s + "}\n";
  }

 private:
  static constexpr size_t none = SIZE_MAX;

  std::string type(ValueId v) const {
    std::vector<std::string> dims;
    for (const Dim& d : g_.type(v).dims) dims.push_back(d.text(g_.symbols));
    return fmt::format("{}[{}]", name_of(g_.type(v).dtype), fmt::join(dims, ", "));
  }

  // Weights and numbers stand in the box that reads them.
  bool is_small(const Node& n) const { return n.op == Op::weight || n.op == Op::literal; }

  void read(Box& b, ValueId v) {
    const Node& n = g_.producer(v);
    if (n.op == Op::weight) {
      b.lines.push_back(cut("weight " + g_.weight_of(v)->name) + " " + type(v));
    } else if (n.op == Op::literal) {
      b.lines.push_back("number " + text_of(g_, n.attributes.at("value")));
    } else if (box_of_[v] != none && std::find(b.from.begin(), b.from.end(), box_of_[v]) == b.from.end()) {
      b.from.push_back(box_of_[v]);
    }
  }

  void finish(Box& b) const {
    size_t longest = 0;
    for (const std::string& line : b.lines) longest = std::max(longest, line.size());
    b.width = static_cast<double>(longest) * letter + 16;
    b.height = line_height * static_cast<double>(b.lines.size()) + 8;
    for (size_t f : b.from) b.layer = std::max(b.layer, boxes_[f].layer + 1);
  }

  void add(const Node& n) {
    if (is_small(n)) return;
    Box b;
    const bool called = n.op == Op::call, given = n.op == Op::input;
    b.lines = {given ? "input " + cut(g_.values[n.out[0]].name) : called ? cut(n.attributes.string("target")) : std::string(name_of(n.op))};
    b.kind = given ? "end" : is_product(n) || n.op == Op::attention ? "dear" : "plain";
    for (ValueId v : n.out) b.lines.push_back(type(v));
    for (ValueId v : n.in) read(b, v);
    if (n.origin != none_id) b.tooltip = g_.origins[n.origin].text();
    finish(b);
    boxes_.push_back(std::move(b));
    for (ValueId v : n.out) box_of_[v] = boxes_.size() - 1;
  }

  void place() {
    std::map<size_t, std::vector<size_t>> layers;
    for (size_t i = 0; i < boxes_.size(); ++i) layers[boxes_[i].layer].push_back(i);
    double y = gap;
    for (auto& [number, layer] : layers) {
      // Each box stands below the middle of what it reads, where there is room.
      std::vector<double> wanted(boxes_.size(), 0);
      for (size_t i : layer) {
        for (size_t f : boxes_[i].from) wanted[i] += boxes_[f].middle() / static_cast<double>(boxes_[i].from.size());
      }
      std::stable_sort(layer.begin(), layer.end(), [&](size_t a, size_t b) { return wanted[a] < wanted[b]; });
      double right = 0, height = 0;
      for (size_t i : layer) {
        Box& b = boxes_[i];
        b.x = std::max(right + gap, wanted[i] - b.width / 2);
        b.y = y;
        right = b.x + b.width;
        height = std::max(height, b.height);
      }
      y += height + between_layers;
    }
  }

  const Graph& g_;
  std::vector<Box> boxes_;
  std::vector<size_t> box_of_;  // per value
};

}  // namespace

std::string draw_svg(const Graph& g) { return Drawing(g).svg(); }
std::string draw_dot(const Graph& g) { return Drawing(g).dot(); }

}  // namespace ingot::ir
