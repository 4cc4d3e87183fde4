// What kernels that read windows in place share, for one set of sizes: lines of outputs, the taps of each, and how tasks share them.
//
// A line is the range of the last index of M. Several of its outputs and one or two vectors of columns are in registers at a time. Elements of A are read in
// place, so any order of axes will do. B is in panels: those of "matmul_pack", or packed at the start of each run.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "backend/cpu/kernels/conv/run/cost.h"
#include "backend/cpu/kernels/conv/run/problem.h"
#include "backend/cpu/kernels/conv/run/tile.h"
#include "backend/cpu/kernels/run/vector_program.h"

namespace ingot::kernels::conv {

// Columns that are computed together.
struct Columns {
  int64_t first, a, b;  // in the result; start of their group in A; their panel
  int vectors, count;
};

// Register tiles by number of outputs, from `min_outputs` to `max_outputs`.
struct TileList {
  const DirectTiles::Tile* by_outputs = nullptr;
  int64_t max_outputs = 0, min_outputs = 1;
};

struct Windows : Problem {
  explicit Windows(Problem p) : Problem(std::move(p)) {}

  std::vector<IndexMap::Index> lines;  // indices before the line's own, batch first
  IndexMap::Index line;
  int64_t inner = 1, inner_step = 1;   // elements of a tap that are inside or outside together
  WindowTaps taps;
  int64_t lanes = 0;
  TileList tiles[2];                   // for one vector of columns, and for two
  TileList threes;                     // for one vector, if taps come in threes; empty: they do not
  bool joins_lines = true;             // outputs of several lines may be one tile
  std::vector<Columns> columns;
  int64_t panel_row = 0, b_row = 0;    // columns of a panel; from an element of a tap to the next in B
  int64_t line_count = 1, segments = 1;  // a line is cut into segments that different tasks compute
  int64_t line_tasks = 1, column_tasks = 1;
  int64_t units = 1;                   // segments of lines that share each read of a panel of B
  bool large = false;                  // A comes from memory beyond the second-level cache
  int64_t next_line = 0;               // elements of A from a line to the next
  bool direct = false;                 // tiles write the result themselves
  SimpleEpilogue simple;
  std::optional<VectorProgram> program;  // if `simple` is not enough
  size_t panel_bytes = 0, tap_bytes = 0, bias_bytes = 0, line_bytes = 0, block_bytes = 0, per_worker = 0;

  double products() const { return static_cast<double>(line_count * line.extent) * static_cast<double>(groups * n) * static_cast<double>(k); }
  ConvSizes sizes(const Constants& c) const;
};

// Sets the register tiles for one and two vectors of columns, and the width of a panel of B. Error (format) if a packed B has another one.
void use_tiles(Windows&, const Constants&, const DirectTiles&);
// How lines and taps are found.
struct TapRules {
  const DirectTiles* threes = nullptr;  // has the tiles for taps that come in threes; null: they are taps like others
  bool several_groups = false;         // a vector holds several groups: a tap is the elements of one
  int64_t longest = longest_sum;       // elements of a tap; longer ones are cut, if they divide evenly
};
void find_lines(Windows&, const Constants&, const TapRules&);
// Each group has vectors of columns of its own.
void find_columns(Windows&);
// Chooses an epilogue that runs in the tiles, if there is one.
void find_end(Windows&, const Constants&);
// Tasks, and the memory of a worker: the tiles' own, and `block_bytes`. `shares_lines`: tasks are segments of lines or groups of panels; else the kernel has tasks of its own.
void share(Windows&, int64_t workers, bool shares_lines = true);
inline size_t scratch_of(const Windows& p, int64_t workers) { return p.panel_bytes + static_cast<size_t>(workers) * p.per_worker; }
// The end of a kernel's resolve, when lines, columns and panels are known: its epilogue, its tasks, and what it takes.
Resolved resolved(const Call&, std::shared_ptr<Windows>, double (*cost)(const ConvSizes&, const Cpu&));

// Memory for panels of B; none if they are read where B is.
void reserve_panels(Windows&, const Constants&, const TensorRef& b);
// Packs them to the start of the scratch.
void pack_panels(const Call&, const Constants&, const Windows&);
inline bool is_empty(const Windows& p) { return p.line_count == 0 || p.line.extent == 0 || p.columns.empty(); }
// Computes all outputs, of B in panels or as it was packed to the scratch.
void run_windows(const Call&, const Constants&, const Windows&);
// RunKernel::run of kernels whose state is a Windows with B in panels.
void run_panels(const Call&);

}  // namespace ingot::kernels::conv
