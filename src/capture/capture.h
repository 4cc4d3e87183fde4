// Capture: torch.export's graph (JSON in a .pt2 archive, or the same JSON handed over in process) becomes a captured
// graph: one node per torch node (Op::call), the user's line on each, symbolic sizes with ranges.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace ingot::capture {

struct Model {
  ir::Graph graph;         // captured level
  bool functional = true;  // false: raw (training IR), it still has in-place operators
  std::string signature;   // JSON: pytree specs and names, kept for Python
  std::set<std::string> ranged;  // sizes whose range set_dim has set
};

// A weight handed over in process: torch's own storage, alive as long as `keep`.
struct HostWeight {
  std::string name;
  const std::byte* data;
  size_t bytes;
};

// Reads a torch.export archive (.pt2). The file is mapped; weights point into it. Errors: io (missing), format
// (damaged; names what and where), version (schema newer than known), unsupported.
Model import_archive(const std::string& path);
// Reads the same JSON from memory; weights by name from the table, which must outlive the model.
Model import_json(std::string_view json, const std::vector<HostWeight>& weights);

// Makes an axis of an input dynamic or narrows its range: min <= opt <= max; axes given one name become one size.
// Error (invalid_input) naming both inputs when ranges or recorded sizes contradict.
void set_dim(Model&, std::string_view input, int64_t axis, int64_t min, int64_t opt, int64_t max, std::string_view name);

}  // namespace ingot::capture
