// Convolutions 3 x 3 with stride 1 by Winograd's transformation (WinogradTiles in tile.h), also of volumes, where planes are taps as in any convolution.
//
// A *block* is some rows of windows of one image: as many as fit a second-level cache. Its planes are transformed one after another; as many as are taps of
// another one are kept. A panel of B is transformed where it is used, as reading the larger result from memory takes longer, and kept if all panels fit the cache.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "backend/cpu/kernels/conv/run/cost.h"
#include "backend/cpu/kernels/conv/run/problem.h"
#include "backend/cpu/kernels/conv/run/tile.h"
#include "kernels/run/index_map.h"

namespace ingot::kernels {

struct WinogradPlan {
  // Elements of windows along an axis that are inside A; steps of the axis in A.
  struct Axis {
    int64_t outputs = 1, begin = 0, end = 1, step = 0;
    bool has(int64_t at) const { return at >= begin && at < end; }
  };
  Axis planes, rows, places;
  int64_t depth = 1;                   // taps along planes
  int64_t channels = 0, all_channels = 0;  // of a group, of all groups: they are neighbours
  int64_t columns = 0;                 // of a group
  int64_t images = 1, panels = 0, panel_row = 0;
  int64_t windows_x = 0, windows_y = 0, blocks = 0;
  bool keeps_weights = false;          // of all panels
  bool by_columns = false;             // tasks are groups of panels: each transforms all images
  // In elements: a plane of a block and its row of channels, a panel's weights, sums of a block; from one of the 16 values to the next.
  int64_t plane_size = 0, row = 0, image_stride = 0, panel_size = 0, weights_stride = 0, sums_size = 0;
  size_t bytes() const { return static_cast<size_t>(depth * plane_size + (keeps_weights ? panels : 1) * panel_size + sums_size) * sizeof(float); }
};

struct WinogradSizes {
  int64_t groups, group_step;          // in A
  int64_t columns, panels, panel_row;  // of a group; of all
  int64_t lanes, workers;
};
// nullopt if windows are of another kind.
// `first_k`: the first of the map's summed indices.
std::optional<WinogradPlan> winograd_plan(const IndexMap&, size_t first_k, const conv::Lines&, const WinogradSizes&);
// Nanoseconds.
double cost_of_winograd(const WinogradPlan&, const conv::Cpu&);

// One worker's block.
class WinogradBlock {
 public:
  WinogradBlock(const WinogradPlan& p, const WinogradTiles& tiles, float* scratch, const float* zeros);
  // Transforms plane `z` of an image, whose first element of the first window is at `a`: the block's rows of windows are [begin, end).
  void plane(const float* a, int64_t z, int64_t begin, int64_t end);
  // Transforms a panel of B, of one or two vectors.
  void panel(const float* b, int64_t index, int vectors);
  // The sums of the block's windows with their first tap in plane `z`, for a panel that was transformed, whose group begins at this channel. `by_windows`: the
  // register tiles by number of windows.
  const float* sums(int64_t z, int64_t index, int64_t channel, int vectors, const DirectTiles::Tile* by_windows, int64_t max_windows, int lanes);
  // Those of the first window of a row; from one of the 16 to the next.
  int64_t sums_row(int vectors, int lanes) const { return p_.windows_x * vectors * lanes; }
  int64_t sums_stride(int vectors, int lanes) const;

 private:
  const WinogradPlan& p_;
  const WinogradTiles& tiles_;
  float *planes_, *weights_, *sums_;
  const float* zeros_;
  int64_t windows_ = 0;  // of the block
};

}  // namespace ingot::kernels
