// Cuts a fused step's program, for one set of sizes, into parts. A value that depends on only some axes of the domain is computed once over those axes and
// held. Blocks run along the axis with the best memory access; reductions do too if rows are short or strided.
#pragma once
#include <vector>

#include "backend/cpu/kernels/fused/run/program.h"

namespace ingot::kernels {

struct Cut {
  struct Part {
    Bound bound;
    bool known = false;            // it reads no memory, so it was computed when the program was cut
  };
  std::vector<Part> parts;         // in execution order; the last one computes the step's results
  struct Held {                    // extra operands after the step's own: written by one part, read by later ones
    size_t offset = 0;             // into `numbers` or the step's scratch
    bool known = false;
  };
  std::vector<Held> held;
  std::vector<std::byte> numbers;  // results of the known parts
  size_t bytes = 0;                // scratch for the other parts
};

using Axes = uint32_t;  // one bit per axis of the domain
inline constexpr Axes all_axes = ~Axes{0};
// Per value: the axes that it depends on. After a reduction: all axes.
std::vector<Axes> axes_of(const Bound&, const Program&);
int64_t elements_of(const Bound&, Axes);

// Checks its arguments like bind_program.
Cut cut_program(const Program&, std::span<const TensorRef> operands, std::span<const int64_t> sizes, std::vector<int64_t> domain);

// order[n]: the axis that becomes axis n.
void reorder_axes(Bound&, Program&, const std::vector<size_t>& order);

// Moves the best axis for this domain's blocks to the end, or makes reductions run across rows (Bound::across).
void choose_axis(Bound&, Program&);

}  // namespace ingot::kernels
