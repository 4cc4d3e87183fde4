// What a direct_conv step does for one set of sizes.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backend/cpu/kernels/direct_conv/run/line_end.h"
#include "backend/cpu/kernels/direct_conv/run/tile.h"
#include "backend/cpu/kernels/direct_conv/run/winograd.h"
#include "backend/cpu/kernels/fused/run/program.h"
#include "kernels/matmul/run/matmul_args.h"
#include "kernels/run/kernel.h"

namespace ingot::kernels::direct_conv {

inline constexpr int64_t most_units = 16, most_zeros = 2048;

struct Constants {
  bool packed;
  size_t batch_rank;
  GemmMap map;
  std::shared_ptr<const Program> body;
  bool grouped;
  size_t map_sizes() const { return batch_rank + map.m_rank + map.k_rank + map.rank; }
};

// Columns that are computed together.
struct Columns {
  int64_t first, a, b;  // in the result; start of their group in A; their panel
  int vectors, count;
};

// An operand of the body over the domain without the groups' axis.
struct Joined {
  int64_t dims[max_rank], strides[max_rank];
};

struct Plan {
  Bound bound;
  int64_t m, n, k, groups = 1;
  size_t group_axis = SIZE_MAX;
  IndexMap map;
  std::vector<IndexMap::Index> lines;  // indices before the line's own, batch first
  IndexMap::Index line;
  int64_t inner = 1, inner_step = 1;
  WindowTaps taps;
  const DirectTiles* tiles;
  const DirectTiles::Tile *narrow = nullptr, *dots = nullptr;
  const DirectTiles::Threes* threes = nullptr;
  std::vector<Columns> columns;
  int64_t panel_row;                   // columns of a panel
  int64_t line_count = 1, pieces = 1;
  int64_t line_tasks = 1, column_tasks = 1;
  int64_t units = 1;                   // pieces of lines that share each read of a panel of B
  bool large = false;                  // A comes from behind the second-level cache
  int64_t next_line = 0;               // elements of A from a line to the next
  bool direct = false;                 // tiles write the result themselves
  SimpleEpilogue simple;
  std::optional<VectorProgram> program;  // if `simple` is not enough
  std::optional<WinogradPlan> winograd;
  std::shared_ptr<const LinePlan> lines_plan;  // if vectors go along lines; then nothing below `bound` is used
  size_t panel_bytes = 0, tap_bytes, bias_bytes, line_bytes, block_bytes = 0, per_worker;

  double work() const { return static_cast<double>(line_count * line.extent) * static_cast<double>(groups * n) * static_cast<double>(k); }  // products
};

// RunKernel::load and resolve; the results are Constants and a Plan.
std::shared_ptr<const void> load(std::span<const std::byte> bytes, size_t operands, size_t sizes);
Resolved resolve(const Call&);

inline size_t padded(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace ingot::kernels::direct_conv
