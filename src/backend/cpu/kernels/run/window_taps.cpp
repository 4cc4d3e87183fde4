#include "backend/cpu/kernels/run/window_taps.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace ingot::kernels {

WindowTaps::WindowTaps(const char* step, const IndexMap& map, std::span<const IndexMap::Index> before, const IndexMap::Index& line, std::span<const IndexMap::Index> inside,
                       std::span<const int64_t> b_steps, int64_t max_taps, bool joins_ends)
    : axes_(map.axes) {
  std::copy(map.size, map.size + axes_, size_);
  int64_t count = 1;
  for (const IndexMap::Index& i : inside) {
    if (i.extent > 0 && count > max_taps / i.extent) fail(Code::format, "{}: a window has too many places", step);
    count *= i.extent;
  }
  for (int axis = 0; axis < axes_; ++axis) {
    across_[axis] = line.along[axis] != 0;
    for (const IndexMap::Index& i : before) fits = fits && !(across_[axis] && i.along[axis] != 0);
  }
  // The positions along the line where a tap starts or stops being inside.
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
  if (joins_ends) join_ends();
  for (int axis = 0; axis < axes_; ++axis) {
    std::set<int64_t> begins;
    inside_[axis] = {INT64_MIN, INT64_MAX};
    for (const Place& place : places_) {
      if (across_[axis]) continue;
      const int64_t begin = -place.along[axis], end = size_[axis] - place.along[axis];
      begins.insert({begin, end});
      inside_[axis] = {std::max(inside_[axis].begin, begin), std::min(inside_[axis].end, end)};
    }
    cuts_[axis].assign(begins.begin(), begins.end());
  }
  for (const Run& run : runs_) {
    first_.push_back(memory_);
    memory_ += 1 + run.places.size();
  }
  if (memory_ > run_tuning::max_listed_taps) {
    first_.clear();
    memory_ = 1 + places_.size();
  }
}

void WindowTaps::keep_sets() {
  if (!first_.empty()) sets_ = std::clamp<size_t>(run_tuning::max_listed_taps / std::max<size_t>(1, memory_), 1, run_tuning::max_tap_lists);
}

void WindowTaps::Lists::fill(size_t run, const IndexMap::Position& start, WindowTap* to) const {
  WindowTap* next = to + 1;
  const Run& of = taps_->runs_[run];
  int leaves[IndexMap::max_axes], axes = 0;  // along which some taps are outside
  for (int axis = 0; axis < taps_->axes_; ++axis) {
    if (start.along[axis] < taps_->inside_[axis].begin || start.along[axis] >= taps_->inside_[axis].end) leaves[axes++] = axis;
  }
  for (size_t i = 0; i < of.places.size(); ++i) {
    const Place& place = taps_->places_[of.places[i]];
    bool in = true;
    for (int k = 0; k < axes; ++k) in = in && taps_->is_inside(leaves[k], start.along[leaves[k]] + place.along[leaves[k]]);
    if (!in) continue;
    const WindowTap tap{place.tap.a, place.tap.b, of.ends.empty() ? WindowTap::none : of.ends[i]};
    if (taps_->max_merged_ > 1 && next != to + 1) {
      WindowTap& last = next[-1];
      const int64_t n = last.length;
      if (n < taps_->max_merged_ && last.ends == tap.ends && last.a + n * taps_->merged_step_a_ == tap.a && last.b + n * taps_->merged_step_b_ == tap.b) {
        ++last.length;
        continue;
      }
    }
    *next++ = tap;
  }
  to->a = next - to - 1;
}

std::span<const WindowTap> WindowTaps::Lists::of(size_t run, const IndexMap::Position& start) {
  const auto of_list = [](const WindowTap* list) { return std::span(list + 1, static_cast<size_t>(list->a)); };
  if (taps_->first_.empty()) {
    fill(run, start, memory_);
    return of_list(memory_);
  }
  const auto axes = static_cast<size_t>(taps_->axes_);
  size_t between[IndexMap::max_axes];
  for (size_t axis = 0; axis < axes; ++axis) {
    const std::vector<int64_t>& cuts = taps_->cuts_[axis];
    between[axis] = static_cast<size_t>(std::upper_bound(cuts.begin(), cuts.end(), start.along[axis]) - cuts.begin());
  }
  const auto is = [&](size_t set) { return set < made_ && std::equal(between, between + axes, between_[set]); };
  size_t set = last_;
  for (size_t k = 0; k < made_ && !is(set); ++k) set = k;
  if (!is(set)) {
    set = made_ < taps_->sets_ ? made_++ : (last_ + 1) % taps_->sets_;
    std::copy_n(between, axes, between_[set]);
    for (size_t r = 0; r < taps_->runs_.size(); ++r) fill(r, start, memory_ + set * taps_->memory_ + taps_->first_[r]);
  }
  last_ = set;
  return of_list(memory_ + set * taps_->memory_ + taps_->first_[run]);
}

bool WindowTaps::in_threes(int64_t a) const {
  if (runs_.size() != 1 || runs_[0].places.size() != places_.size() || places_.size() % 3 != 0) return false;
  for (size_t i = 0; i < places_.size(); ++i) {
    const size_t at = i % 3;
    const uint32_t ends = runs_[0].ends.empty() ? WindowTap::none : runs_[0].ends[i];
    if ((ends & ~(at == 0 ? WindowTap::first : at == 2 ? WindowTap::last : WindowTap::none)) != 0) return false;
    const Place &first = places_[i - at], &place = places_[i];
    if (place.tap.a != first.tap.a + static_cast<int64_t>(at) * a) return false;
    for (int axis = 0; axis < axes_; ++axis) {
      if (!across_[axis] && place.along[axis] != first.along[axis]) return false;
    }
  }
  return true;
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
