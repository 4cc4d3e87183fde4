// Which taps of a convolution's window are inside the image for each output of a line. Found once per set of sizes, so
// that outputs at the borders do no useless work.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/kernels/run/tuning.h"
#include "kernels/run/index_map.h"

namespace ingot::kernels {

// A tap of the window: its offset in A from the line's start, and in B, for the first output. `ends`: it is outside for the first or last output of the run.
// `length`: as many taps, one after another in A and in B.
struct WindowTap {
  enum Ends : uint32_t { none, first, last };
  int64_t a, b;
  uint32_t ends = none, length = 1;
};

class WindowTaps {
 public:
  // Outputs [begin, end) of a line have the same taps, as far as the line's own index decides.
  struct Run {
    int64_t begin, end;
    std::vector<uint32_t> places;
    std::vector<uint32_t> ends = {};  // of each tap, or none
  };

  // `line`: the index along the line. `before`: the indices over lines; `fits` is false if one of them moves along an axis along which `line` also moves and
  // which has a border. `inside`: the indices of the taps, with strides `b_steps` in B. Error (format), naming `step`, if there are more than `most` taps.
  // `joins_ends`: a single output at the end of a run with fewer taps than the run is joined to it.
  WindowTaps() = default;
  WindowTaps(const char* step, const IndexMap& map, std::span<const IndexMap::Index> before, const IndexMap::Index& line, std::span<const IndexMap::Index> inside,
             std::span<const int64_t> b_steps, int64_t max_taps, bool joins_ends = false);
  // Keeps lists of more lines than the last one, in more memory.
  void keep_sets();

  // Taps of a list at distances `a` in A and `b` in B become one, of `most` taps at most.
  void merge(int64_t a, int64_t b, int64_t max_merged) { merged_step_a_ = a, merged_step_b_ = b, max_merged_ = max_merged; }

  // True if all lists consist of threes: taps at a distance of `a` along the line. Only the first of them may be outside for the first output, and only the last for the last output.
  bool in_threes(int64_t a) const;

  bool fits = true;
  size_t places() const { return places_.size(); }
  const std::vector<Run>& runs() const { return runs_; }

  // The tap lists of one worker's lines. Consecutive lines mostly have the same taps: a list is recomputed only where a border begins or ends, and lines of a
  // volume come to the same borders again.
  class Lists {
   public:
    Lists() = default;
    Lists(const WindowTaps& of, WindowTap* memory) : taps_(&of), memory_(memory) {}
    // The taps of a run for the line that starts at `start`.
    std::span<const WindowTap> of(size_t run, const IndexMap::Position& start);

   private:
    void fill(size_t run, const IndexMap::Position& start, WindowTap* to) const;
    const WindowTaps* taps_ = nullptr;
    WindowTap* memory_ = nullptr;  // per list: its length, then its taps
    size_t made_ = 0, last_ = 0;  // sets; the one of the last line
    size_t between_[run_tuning::max_tap_lists][IndexMap::max_axes];  // per set that is made and axis: between which cuts its lines are
  };
  size_t memory() const { return memory_ * sets_; }  // of Lists, in number of taps

 private:
  void join_ends();
  struct Place {
    WindowTap tap;
    int64_t along[IndexMap::max_axes] = {};
  };
  bool is_inside(int axis, int64_t at) const { return at >= 0 && at < size_[axis]; }

  std::vector<Place> places_;
  std::vector<Run> runs_;
  std::vector<size_t> first_;  // start of each run's list in memory; empty: too large to keep
  size_t memory_ = 0, sets_ = 1;  // of a set of lists
  int64_t merged_step_a_ = 0, merged_step_b_ = 0, max_merged_ = 1;
  int axes_ = 0;
  struct Lines {
    int64_t begin, end;
  } inside_[IndexMap::max_axes] = {};  // per axis: the positions of lines whose taps are all inside
  int64_t size_[IndexMap::max_axes] = {};
  bool across_[IndexMap::max_axes] = {};  // axes along which the line's index moves; the indices before it move along the others
  std::vector<int64_t> cuts_[IndexMap::max_axes];  // of the other axes: where the taps of a line change
};

}  // namespace ingot::kernels
