// Partition: which nodes of a captured graph run in an engine and which stay in torch. Each node is decided by itself, so that the report can name the user's own
// operators.
//
// Nodes that may run here form segments, as few as the data flow allows. A segment that gains less than its call costs stays in torch too. Segments are numbered
// in an order in which they can run.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace ingot::partition {

struct Settings {
  int64_t min_block_size = 0;              // least nodes of a segment; 0 = by estimated gain
  std::vector<std::string> torch_ops;      // operators ("aten.gelu.default", "aten.gelu", "gelu") or node names kept in torch
  std::vector<std::string> torch_modules;  // module paths ("encoder.layer.0") or classes ("BertLayer") kept in torch
};

// A node that cannot run here, and why.
struct Refused {
  ir::NodeId node;
  std::string reason;
};

struct Segment {
  std::vector<ir::NodeId> nodes;  // in order
  // Values from outside (of the weights only those that the model writes), and values needed outside. An input that no node reads is there for its sizes.
  std::vector<ir::ValueId> inputs, outputs;
  // Per output: the order of its axes in memory, if torch reads it and recorded another than row-major; the function returns it so permuted.
  std::vector<std::vector<int64_t>> orders;
  double gain = 0, cost = 0;      // estimated, in microseconds a call
};

inline constexpr uint32_t in_torch = UINT32_MAX;

struct Partition {
  std::vector<uint32_t> segment_of;  // per node: its segment, or in_torch
  std::vector<std::string> reason;   // per node in torch: why
  std::vector<Segment> segments;
  // One segment has every node and gives every output: the graph needs no torch.
  bool whole = false;
};

// `refused` in the order of nodes. Error (invalid_option) when a name in the settings matches nothing.
Partition partition(const ir::Graph& captured, const std::vector<Refused>& refused, const Settings&);

// The segment as a captured graph of its own: bindings named as torch names the values.
ir::Graph extract(const ir::Graph& captured, const Segment&);

// What autocast makes of the calls that engines run; `type` is empty where it is off.
struct Precisions {
  struct Node {
    bool low = false;
    std::string reason;  // of one that stays in float32: why; empty where it has no such numbers
  };
  std::string type;
  std::vector<Node> nodes;
  size_t casts = 0;
  std::vector<std::string> unused;  // patterns that name nothing
};

// What runs where: {nodes: [...], segments: [...], missing: [...]} as JSON, and the same for people.
std::string report_json(const ir::Graph& captured, const Partition&, const std::vector<Refused>& refused, const Settings&, const Precisions& = {});
std::string report_text(const ir::Graph& captured, const Partition&, const std::vector<Refused>& refused, const Settings&);

}  // namespace ingot::partition
