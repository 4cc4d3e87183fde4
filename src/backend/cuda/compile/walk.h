// How the GPU iterates over a fused body's domain: which axes form one loop, which values vary along which loop, and what can be accessed in vectors. Decided
// from symbolic sizes, so that one kernel serves all sizes.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "backend/site.h"

namespace ingot::backend::cuda {

// Along what a value varies. A unit is V adjacent elements of the last group.
enum class Level : uint8_t {
  row,      // constant along a row (without rows: everywhere)
  unit,     // differs between units
  element,  // differs inside a unit
};

struct Walk {
  struct Group {
    uint8_t first, last;
    ir::Dim extent;
  };
  std::vector<Group> groups;       // axes of size 1 may be in no group
  size_t outer = 0;                // number of groups before the row's; without reductions all are inner
  bool rows = false;               // the body reduces
  std::vector<int> group_of;       // domain axis -> group, or -1
  std::vector<Level> level;        // of each instruction's value
  std::vector<uint8_t> stage;      // backend::stages
  std::vector<ir::Dims> stride;    // of operand k along each domain axis; 0 where it is broadcast
  std::vector<uint8_t> guarded;    // operand k is read only by guarded loads
  std::vector<std::vector<uint8_t>> guards;  // instruction k (a guarded load), axis: the coordinate may be outside
  std::vector<uint8_t> vector;     // operand k is accessed in whole units
  int unit = 1;                    // elements per unit if everything is aligned

  const Group& inner() const { return groups.back(); }
  Level level_of_group(int group) const {
    if (group < static_cast<int>(outer)) return Level::row;
    return group + 1 < static_cast<int>(groups.size()) ? Level::unit : Level::element;
  }
  // The operand's stride along a group.
  const ir::Dim& along(size_t operand, const Group& g) const { return stride[operand][g.last]; }
  bool varies(size_t operand, const Group& g) const {
    const ir::Dim& s = along(operand, g);
    return !(s.is_constant() && s.value() == 0);
  }
  Level level_of_operand(size_t operand) const {
    Level l = Level::row;
    for (size_t g = 0; g < groups.size(); ++g) {
      if (varies(operand, groups[g])) l = std::max(l, level_of_group(static_cast<int>(g)));
    }
    return l;
  }
  // Most loads are contiguous along the axis before the row's, not along the row.
  bool columns = false;
  // Without rows: a group before the last along which some operands are contiguous that are not so along the last (`transposed`): these go through tiles of both
  // groups in shared memory. -1: none.
  int across = -1;
  std::vector<uint8_t> transposed;  // operand k
};

// Error (unsupported) for what CUDA code cannot do (an accumulator without an anchor).
Walk make_walk(const FusedBody&, const std::vector<StridedLayout>&);

// Per instruction: must a pass over the row compute it? The pass computes the reductions of `stage`, or the stores (-1).
std::vector<uint8_t> needed(const FusedBody&, const Walk&, int stage);
// The last stage that has a reduction.
int last_stage(const FusedBody&, const Walk&);
// Loads whose elements several passes need, the widest type first.
std::vector<size_t> kept_loads(const FusedBody&, const Walk&);

}  // namespace ingot::backend::cuda
