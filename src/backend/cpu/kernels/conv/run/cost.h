// What a convolution takes by each kernel of the family, estimated from sizes alone: for offers, and for the choice among a step's alternatives.
#pragma once
#include <cstdint>
#include <limits>

#include "base/machine.h"
#include "kernels/run/index_map.h"

namespace ingot::kernels::conv {

inline constexpr double never = std::numeric_limits<double>::infinity();

// What an estimate is for.
struct Cpu {
  const Machine& machine;
  int64_t lanes;                       // floats in a vector of the kernel's tiles
  int64_t threads;
  // Nanoseconds of one core: products of so many vectors, if they were all it did; so many cycles.
  double vectors(double count) const { return count * machine.lanes / machine.f32; }
  double cycles(double count) const { return count / machine.clock; }
};

// The sizes of a convolution that costs depend on.
struct ConvSizes {
  double outputs = 0;                  // of a group: places of all images
  int64_t line = 1;                    // of them, places whose windows are evenly apart in A
  int64_t step = 1;                    // from one of them to the next, in A
  double copied = 1;                   // the share of A that windows read, as far as the line's step decides
  int64_t ranges = 1;                  // of a line, each with taps of its own
  double inside = 1;                   // the share of window elements that are inside A
  int64_t groups = 1, n = 0, k = 0;
  int64_t tap = 1;                     // elements of a window that are inside A or outside together
  int64_t run = 1;                     // and of those, as many as are neighbours in A
  double image = 0;                    // elements of A
  bool mapped = true;                  // A is read through a map; else it is a matrix
  // For kernels with vectors along columns: what it costs, in cycles, that elements of a window or columns of the result are not neighbours in memory.
  double order_cycles = 0;

  double lines() const { return outputs / static_cast<double>(line > 0 ? line : 1); }
};
// The map's indices are batch_rank, then m_rank, then those of K. `group`: the index of groups; SIZE_MAX: there is none.
ConvSizes sizes_of(const IndexMap&, size_t batch_rank, size_t m_rank, size_t group, int64_t n);

// Nanoseconds.
double cost_of_tiles(const ConvSizes&, const Cpu&);
double cost_of_groups(const ConvSizes&, const Cpu&);
double cost_of_dots(const ConvSizes&, const Cpu&);
// Of lines of this many outputs.
double cost_of_lines(const ConvSizes&, int64_t length, const Cpu&);
// Rows of A are copied into panels for the GEMM, if it has a map.
double cost_of_rows(const ConvSizes&, const Cpu&);
// Of copies that compile makes for a kernel with vectors along columns, or of stores one by one: ConvSizes::order_cycles.
double cost_of_order(const ConvSizes&, const Cpu&);

}  // namespace ingot::kernels::conv
