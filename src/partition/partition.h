// Partition: decides which nodes of a captured graph run in an engine and which stay in torch. Each node is decided separately, so
// that the report can name the user's own operators.
//
// Nodes that can run here form segments, as few as the data flow allows. A segment that gains less than its call costs stays in torch.
// Segments are numbered in an order in which they can run.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/machine.h"
#include "ir/graph.h"

namespace ingot::partition {

struct Settings {
  int64_t min_block_size = 0;              // minimum number of nodes of a segment; 0 = decide by estimated gain
  std::vector<std::string> torch_ops;      // operators ("aten.gelu.default", "aten.gelu", "gelu") or node names kept in torch
  std::vector<std::string> torch_modules;  // module paths ("encoder.layer.0") or classes ("BertLayer") kept in torch
  Machine machine = machine_for(Target());
};

// A node that cannot run here, with the reason.
struct Refused {
  ir::NodeId node;
  std::string reason;
};

struct Segment {
  std::vector<ir::NodeId> nodes;  // in order
  // Values from outside (only those weights that the model writes), and values needed outside. An input that no node reads supplies a size.
  std::vector<ir::ValueId> inputs, outputs;
  // Per output: its axis order in memory, if torch reads it and recorded a result that is not row-major; the function returns it permuted so.
  std::vector<std::vector<int64_t>> orders;
  double gain = 0, cost = 0;      // estimated, in microseconds per call
};

inline constexpr uint32_t in_torch = UINT32_MAX;

struct Partition {
  std::vector<uint32_t> segment_of;  // per node: its segment, or in_torch
  std::vector<std::string> reason;   // per node in torch: the reason
  std::vector<Segment> segments;
  // True if one segment has every node and gives every output, so that the graph does not need torch.
  bool whole = false;
};

// `refused`: in node order. Error (invalid_option) if a name in the settings matches nothing.
Partition partition(const ir::Graph& captured, const std::vector<Refused>& refused, const Settings&);

// The segment as a captured graph of its own. Bindings have torch's names of the values.
ir::Graph extract(const ir::Graph& captured, const Segment&);

// The effect of autocast on the operators of engines; `type` is empty if it is off.
struct Precisions {
  struct Node {
    bool low = false;
    std::string reason;  // why the node stays in float32; empty if it has no floats
  };
  std::string type;
  std::vector<Node> nodes;
  size_t casts = 0;
  std::vector<std::string> unused;  // patterns that match nothing
};

// The report as JSON, {nodes: [...], segments: [...], missing: [...]}, and as text.
std::string report_json(const ir::Graph& captured, const Partition&, const std::vector<Refused>& refused, const Settings&, const Precisions& = {});
std::string report_text(const ir::Graph& captured, const Partition&, const std::vector<Refused>& refused, const Settings&);

}  // namespace ingot::partition
