// A fused step's program for one set of sizes, cut into parts: values that depend on some axes of the domain only are computed once, over these axes, and
// held; blocks run along the axis where memory is best read and written, those of reductions too where rows are short or lie apart.
#pragma once
#include <vector>

#include "backend/cpu/kernels/fused/run/program.h"

namespace ingot::kernels {

struct Cut {
  struct Part {
    Bound bound;
    bool known = false;            // reads no memory: computed when it was cut
  };
  std::vector<Part> parts;         // in the order in which they run; the last one is what the step is for
  struct Held {                    // operands behind the step's own: written by one part, read by later ones
    size_t offset = 0;             // into `numbers` or the step's scratch
    bool known = false;
  };
  std::vector<Held> held;
  std::vector<std::byte> numbers;  // of the parts that are known
  size_t bytes = 0;                // of scratch for the others
};

using Axes = uint32_t;  // a bit for each axis of the domain
inline constexpr Axes all_axes = ~Axes{0};
// Which axes each value depends on; all of them behind a reduction.
std::vector<Axes> axes_of(const Bound&, const Program&);
int64_t elements_of(const Bound&, Axes);

// Checks as bind_program does.
Cut cut_program(const Program&, std::span<const TensorRef> operands, std::span<const int64_t> sizes, std::vector<int64_t> domain);

// order[n]: the axis that becomes number n.
void reorder_axes(Bound&, Program&, const std::vector<size_t>& order);

// Where a domain's blocks run best: moves that axis to the end; or makes the reductions run across rows (Bound::across).
void choose_axis(Bound&, Program&);

}  // namespace ingot::kernels
