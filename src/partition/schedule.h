// The order in which nodes run, and the segments that follow from it.
#pragma once
#include <cstdint>
#include <vector>

#include "partition/partition.h"

namespace ingot::partition {

struct Schedule {
  std::vector<Segment> segments;     // without bindings
  std::vector<uint32_t> segment_of;  // per node: its segment, or in_torch
  std::vector<uint32_t> turn;        // per node: torch and engines take turns; it runs after nodes of lower turns
};

Schedule schedule(const ir::Graph&, const std::vector<bool>& can_run_here);

}  // namespace ingot::partition
