#include "backend/cpu/kernels/run/window_taps.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace ingot::kernels {

WindowTaps::WindowTaps(const char* step, const IndexMap& map, std::span<const IndexMap::Index> before, const IndexMap::Index& line, std::span<const IndexMap::Index> inside,
                       std::span<const int64_t> b_steps, int64_t most)
    : axes_(map.axes) {
  std::copy(map.size, map.size + axes_, size_);
  int64_t count = 1;
  for (const IndexMap::Index& i : inside) {
    if (i.extent > 0 && count > most / i.extent) fail(Code::format, "{}: a window has too many places", step);
    count *= i.extent;
  }
  for (int axis = 0; axis < axes_; ++axis) {
    across_[axis] = line.along[axis] != 0;
    for (const IndexMap::Index& i : before) fits = fits && !(across_[axis] && i.along[axis] != 0);
  }
  // Where along the line a place begins and ends to be inside.
  std::set<int64_t> cuts{0, line.extent};
  for (int64_t k = 0; k < count; ++k) {
    Place place{};
    IndexMap::Position at;
    int64_t rest = k;
    for (size_t i = inside.size(); i-- > 0; rest /= inside[i].extent) {
      at.move(inside[i], rest % inside[i].extent, axes_);
      place.tap.b += rest % inside[i].extent * b_steps[i];
    }
    place.tap.a = static_cast<int64_t>(at.offset);
    std::copy(at.along, at.along + axes_, place.along);
    for (int axis = 0; axis < axes_; ++axis) {
      if (!across_[axis]) continue;
      const int64_t from = map.start.along[axis] + place.along[axis], by = line.along[axis];
      auto steps_to = [&](int64_t where) { return where <= from ? 0 : (where - from + by - 1) / by; };
      for (int64_t cut : {steps_to(0), steps_to(size_[axis])}) cuts.insert(std::min(cut, line.extent));
    }
    places_.push_back(place);
  }
  for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
    std::vector<uint32_t> seen;
    for (uint32_t k = 0; k < places_.size(); ++k) {
      bool in = true;
      for (int axis = 0; axis < axes_; ++axis) in = in && (!across_[axis] || is_inside(axis, map.start.along[axis] + *cut * line.along[axis] + places_[k].along[axis]));
      if (in) seen.push_back(k);
    }
    if (!runs_.empty() && runs_.back().places == seen) {
      runs_.back().end = *std::next(cut);
    } else {
      runs_.push_back({*cut, *std::next(cut), std::move(seen)});
    }
  }
}

int64_t WindowTaps::taps(const Run& run, const IndexMap::Position& start, WindowTap* to) const {
  int64_t count = 0;
  for (size_t i = 0; i < run.places.size(); ++i) {
    const Place& place = places_[run.places[i]];
    bool in = true;
    for (int axis = 0; axis < axes_; ++axis) in = in && (across_[axis] || is_inside(axis, start.along[axis] + place.along[axis]));
    if (in) to[count++] = {static_cast<int64_t>(start.offset) + place.tap.a, place.tap.b, run.ends.empty() ? WindowTap::none : run.ends[i]};
  }
  return count;
}

void WindowTaps::join_ends() {
  std::vector<Run> joined;
  auto join = [](Run& run, const Run& end, WindowTap::Ends which) {
    const bool joined_before = std::any_of(run.ends.begin(), run.ends.end(), [&](uint32_t e) { return (e & which) != 0; });
    if (joined_before || !end.ends.empty() || end.end - end.begin != 1 || run.end - run.begin < 2) return false;
    if (!std::includes(run.places.begin(), run.places.end(), end.places.begin(), end.places.end())) return false;
    run.ends.resize(run.places.size());
    for (size_t i = 0; i < run.places.size(); ++i) {
      if (!std::binary_search(end.places.begin(), end.places.end(), run.places[i])) run.ends[i] |= which;
    }
    run.begin = std::min(run.begin, end.begin);
    run.end = std::max(run.end, end.end);
    return true;
  };
  for (Run& run : runs_) {
    if (!joined.empty() && join(run, joined.back(), WindowTap::first)) {
      joined.back() = std::move(run);
    } else if (joined.empty() || !join(joined.back(), run, WindowTap::last)) {
      joined.push_back(std::move(run));
    }
  }
  runs_ = std::move(joined);
}

}  // namespace ingot::kernels
