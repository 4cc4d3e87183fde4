// Which places of their windows the outputs of a line see: found once for a set of sizes, so that the edges of an image cost no more than what they see.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/run/index_map.h"

namespace ingot::kernels {

// A place of a window: where it is in A, from where the line begins, and in B, for the first output. It is outside for the outputs at `ends` of the run.
struct WindowTap {
  enum Ends : uint32_t { none, first, last };
  int64_t a, b;
  uint32_t ends = none;
};

class WindowTaps {
 public:
  // Outputs [begin, end) of a line see the same places, as far as the line's own index decides.
  struct Run {
    int64_t begin, end;
    std::vector<uint32_t> places;
    std::vector<uint32_t> ends = {};  // of each place, or none
  };

  // `line`: the index along it. `before`: the indices of lines; where one of them moves along an axis that `line` moves along too and that can be left, `fits`
  // is false. `inside`: the indices of a window's places, `b_steps` far apart in B. Error (format), naming `step`, if there are more than `most`.
  // `joins_ends`: a single output at the end of a run that sees fewer places than the run joins it.
  WindowTaps() = default;
  WindowTaps(const char* step, const IndexMap& map, std::span<const IndexMap::Index> before, const IndexMap::Index& line, std::span<const IndexMap::Index> inside,
             std::span<const int64_t> b_steps, int64_t most, bool joins_ends = false);

  bool fits = true;
  size_t places() const { return places_.size(); }
  const std::vector<Run>& runs() const { return runs_; }

  // What the lines of one worker see. Lines one behind another mostly see the same: a list is made anew only where the edges of the image begin or end.
  class Lists {
   public:
    Lists() = default;
    Lists(const WindowTaps& of, WindowTap* memory) : taps_(&of), memory_(memory) {}
    // Those of a run that are inside for the line that begins at `start`.
    std::span<const WindowTap> of(size_t run, const IndexMap::Position& start);

   private:
    void fill(size_t run, const IndexMap::Position& start, WindowTap* to) const;
    const WindowTaps* taps_ = nullptr;
    WindowTap* memory_ = nullptr;  // of each list its length, then its taps
    bool made_ = false;
    size_t between_[IndexMap::most] = {};  // which cuts of each axis
  };
  size_t memory() const { return memory_; }  // of Lists, in taps

 private:
  void join_ends();
  struct Place {
    WindowTap tap;
    int64_t along[IndexMap::most] = {};
  };
  bool is_inside(int axis, int64_t at) const { return at >= 0 && at < size_[axis]; }

  std::vector<Place> places_;
  std::vector<Run> runs_;
  std::vector<size_t> first_;         // of each run's list in memory; empty: too large to be kept
  size_t memory_ = 0;
  int axes_ = 0;
  int64_t size_[IndexMap::most] = {};
  bool across_[IndexMap::most] = {};  // axes along which the line's index moves; along the others, the indices before it
  std::vector<int64_t> cuts_[IndexMap::most];  // of the others: where a line begins to see something else
};

}  // namespace ingot::kernels
