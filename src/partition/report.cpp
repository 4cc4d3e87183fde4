// Reports what runs where and why, as text and as JSON.
#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "partition/choice.h"
#include "partition/tuning.h"

namespace ingot::partition {

using ir::Graph;
using ir::NodeId;
using ir::Op;

namespace {

struct Count {
  size_t operators = 0, here = 0;
};

Count count(const Graph& g, const Partition& p) {
  Count c;
  for (NodeId n = 0; n < g.nodes.size(); ++n) {
    if (g.nodes[n].op != Op::call) continue;
    ++c.operators;
    c.here += p.segment_of[n] != in_torch;
  }
  return c;
}

std::string where(const Graph& g, NodeId n) { return g.nodes[n].origin == ir::none_id ? "" : g.origins[g.nodes[n].origin].text(); }
std::string node_name(const Graph& g, NodeId n) { return g.nodes[n].origin == ir::none_id ? "" : g.origins[g.nodes[n].origin].node; }

// A missing operator, and the partition if it were supported.
struct Missing {
  std::string target, reason;
  std::vector<NodeId> nodes;
  size_t segments_with = 0, here_with = 0;
};

std::vector<Missing> missing_of(const Graph& g, const std::vector<Refused>& refused, const Settings& settings) {
  std::map<std::string, Missing> by_target;
  for (const Refused& r : refused) {
    Missing& m = by_target[std::string(target(g, r.node))];
    if (m.nodes.empty()) m.reason = r.reason;
    m.nodes.push_back(r.node);
  }
  std::vector<Missing> out;
  for (auto& [name, m] : by_target) {
    m.target = name;
    out.push_back(std::move(m));
  }
  std::stable_sort(out.begin(), out.end(), [](const Missing& a, const Missing& b) { return a.nodes.size() > b.nodes.size(); });
  for (size_t i = 0; i < out.size() && i < tuning::max_explained_operators; ++i) {
    std::vector<Refused> without;
    for (const Refused& r : refused) {
      if (target(g, r.node) != out[i].target) without.push_back(r);
    }
    Partition p = partition(g, without, settings);
    out[i].segments_with = p.segments.size();
    out[i].here_with = count(g, p).here;
  }
  return out;
}

}  // namespace

namespace {

// Nodes of equal operator and reason, in order of first appearance.
using Groups = std::vector<std::pair<std::string, std::vector<NodeId>>>;

void add(Groups& groups, const std::string& key, NodeId n) {
  auto found = std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == key; });
  if (found == groups.end()) {
    groups.push_back({key, {n}});
  } else {
    found->second.push_back(n);
  }
}

// A line per group, with the locations of its first nodes.
std::string text_of(const Graph& g, const Groups& groups) {
  std::string s;
  for (const auto& [key, nodes] : groups) {
    s += fmt::format("  {}{}\n", nodes.size() > 1 ? fmt::format("{} x ", nodes.size()) : "", key);
    std::vector<std::string> shown;
    for (NodeId n : nodes) {
      std::string place = where(g, n);
      if (place.empty() || std::find(shown.begin(), shown.end(), place) != shown.end()) continue;
      if (shown.size() == 3) {
        s += "    ...\n";
        break;
      }
      s += "    at " + place + "\n";
      shown.push_back(std::move(place));
    }
  }
  return s;
}

std::string text_of(const Graph& g, const Precisions& precisions) {
  if (precisions.type.empty()) return "";
  size_t low = 0, all = 0;
  Groups groups;
  for (NodeId n = 0; n < g.nodes.size(); ++n) {
    const Precisions::Node& node = precisions.nodes[n];
    low += node.low;
    all += node.low || !node.reason.empty();
    // Nodes that read float32 form one group, whatever value they read.
    if (!node.reason.empty()) add(groups, std::string(target(g, n)) + ": " + (node.reason.starts_with("it reads") ? "it reads float32" : node.reason), n);
  }
  std::string s = fmt::format("autocast: {} of {} operators in {}, {} cast{} of values\n", low, all, precisions.type, precisions.casts, precisions.casts == 1 ? "" : "s");
  for (const std::string& pattern : precisions.unused) s += fmt::format("  autocast_exclude has \"{}\", which names nothing in this model\n", pattern);
  if (!groups.empty()) s += "in float32:\n" + text_of(g, groups);
  return s;
}

std::string text_of(const Graph& g, const Partition& p, const std::vector<Missing>& missing) {
  Count c = count(g, p);
  if (c.operators == 0) return "the model has no operators: nothing is to be compiled\n";
  auto plural = [](size_t n, const char* noun) { return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s"); };
  std::string s = fmt::format("{} of {} in {}", c.here, plural(c.operators, "operator"), plural(p.segments.size(), "engine segment"));
  if (c.here == c.operators) return s + "; nothing stays in torch\n";
  s += fmt::format("; {} in torch\n", plural(c.operators - c.here, "operator"));
  for (size_t i = 0; i < p.segments.size(); ++i) {
    const Segment& segment = p.segments[i];
    s += fmt::format("  segment {}: {}, {}, {}; saves about {:.0f} us, its call costs {:.0f} us\n", i, plural(segment.nodes.size(), "operator"),
                     plural(segment.inputs.size(), "input"), plural(segment.outputs.size(), "output"), segment.gain, segment.cost / 2);
  }
  s += "in torch:\n";
  Groups groups;
  for (NodeId n = 0; n < g.nodes.size(); ++n) {
    if (g.nodes[n].op == Op::call && p.segment_of[n] == in_torch) add(groups, std::string(target(g, n)) + ": " + p.reason[n], n);
  }
  s += text_of(g, groups);
  bool head = false;
  for (const Missing& m : missing) {
    if (m.here_with <= c.here) continue;
    if (!head) s += "with one more operator:\n";
    head = true;
    s += fmt::format("  {}: {} of {} in {}\n", m.target, m.here_with, plural(c.operators, "operator"), plural(m.segments_with, "segment"));
  }
  return s;
}

}  // namespace

std::string report_json(const Graph& g, const Partition& p, const std::vector<Refused>& refused, const Settings& settings, const Precisions& precisions) {
  Count c = count(g, p);
  const std::vector<Missing> missing = missing_of(g, refused, settings);
  std::string s = fmt::format("{{\"operators\": {}, \"in_engine\": {}, \"whole\": {}, \"segments\": [", c.operators, c.here, p.whole);
  auto names = [&](const std::vector<ir::ValueId>& values) {
    s += "[";
    for (size_t i = 0; i < values.size(); ++i) {
      if (i) s += ", ";
      // The user's names are kept separate from torch's.
      const ir::Weight* w = g.weight_of(values[i]);
      bool given = g.producer(values[i]).op == Op::input;
      if (given || w != nullptr) s += given ? "{\"input\": " : "{\"state\": ";
      append_json_string(s, w != nullptr ? w->name : g.values[values[i]].name);
      if (given || w != nullptr) s += "}";
    }
    s += "]";
  };
  for (size_t i = 0; i < p.segments.size(); ++i) {
    const Segment& segment = p.segments[i];
    s += fmt::format("{}{{\"operators\": {}, \"gain_us\": {:.1f}, \"cost_us\": {:.1f}, \"inputs\": ", i ? ", " : "", segment.nodes.size(), segment.gain, segment.cost);
    names(segment.inputs);
    s += ", \"outputs\": ";
    names(segment.outputs);
    s += fmt::format(", \"orders\": [");
    for (size_t k = 0; k < segment.orders.size(); ++k) s += fmt::format("{}[{}]", k ? ", " : "", fmt::join(segment.orders[k], ", "));
    s += "]}";
  }
  s += "], \"missing\": [";
  bool first = true;
  for (const Missing& m : missing) {
    if (!first) s += ", ";
    first = false;
    s += "{\"target\": ";
    append_json_string(s, m.target);
    s += fmt::format(", \"count\": {}, \"reason\": ", m.nodes.size());
    append_json_string(s, m.reason);
    s += ", \"origin\": ";
    append_json_string(s, where(g, m.nodes[0]));
    s += fmt::format(", \"segments_with\": {}, \"in_engine_with\": {}}}", m.segments_with, m.here_with);
  }
  s += "], \"nodes\": [";
  first = true;
  for (NodeId n = 0; n < g.nodes.size(); ++n) {
    if (g.nodes[n].op != Op::call) continue;
    if (!first) s += ", ";
    first = false;
    s += "{\"name\": ";
    append_json_string(s, node_name(g, n));
    s += ", \"target\": ";
    append_json_string(s, target(g, n));
    s += p.segment_of[n] == in_torch ? ", \"segment\": null, \"reason\": " : fmt::format(", \"segment\": {}, \"reason\": ", p.segment_of[n]);
    append_json_string(s, p.reason[n]);
    s += ", \"origin\": ";
    append_json_string(s, where(g, n));
    if (!precisions.type.empty() && p.segment_of[n] != in_torch) {
      const Precisions::Node& node = precisions.nodes[n];
      s += ", \"precision\": ";
      append_json_string(s, node.low ? precisions.type : node.reason.empty() ? "" : "float32");
      s += ", \"precision_reason\": ";
      append_json_string(s, node.reason);
    }
    s += "}";
  }
  s += "]";
  if (!precisions.type.empty()) {
    s += ", \"autocast\": {\"type\": ";
    append_json_string(s, precisions.type);
    s += fmt::format(", \"casts\": {}, \"unused\": [", precisions.casts);
    for (size_t i = 0; i < precisions.unused.size(); ++i) {
      if (i) s += ", ";
      append_json_string(s, precisions.unused[i]);
    }
    s += "]}";
  }
  s += ", \"text\": ";
  append_json_string(s, text_of(g, p, missing) + text_of(g, precisions));
  return s + "}";
}

std::string report_text(const Graph& g, const Partition& p, const std::vector<Refused>& refused, const Settings& settings) {
  return text_of(g, p, missing_of(g, refused, settings));
}

}  // namespace ingot::partition
