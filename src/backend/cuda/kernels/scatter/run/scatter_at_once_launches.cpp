#include "backend/cuda/kernels/scatter/run/scatter_at_once_launches.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdlib>

namespace ingot::kernels {

namespace {

using Pointer = CudaLaunch::Pointer;
using P = ScatterAtOnceParameters;

// An axis of destinations: one that updates and result share, or one that an index chooses on.
struct Destinations {
  int64_t size, step;
  int64_t number = 1;  // stride, in numbers of destinations
};

// Fills in the parameters of kernels that use the numbers of destinations, or (`offsets`) where these are.
void set_axes(P& p, const ScatterAxes& s, const std::vector<const ScatterAxis*>& order, const std::vector<Destinations>& places, bool offsets) {
  JoinedAxes axes(2 + scatter_cuda_tuning::max_indices);
  auto step = [&](size_t place) { return offsets ? places[place].step : places[place].number; };
  for (const ScatterAxis* a : order) {
    std::vector<int64_t> steps{a->updates, a->out ? step(s.extent.size() + static_cast<size_t>(a - s.axes.data())) : 0};
    steps.insert(steps.end(), a->index.begin(), a->index.end());
    axes.add(a->size, steps);
  }
  p.axes = axes.get<2 + scatter_cuda_tuning::max_indices>();
  int64_t farthest = p.count;  // offset of a tensor
  for (const auto& strides : axes.strides) {
    int64_t reach = 0;
    for (size_t d = 0; d < axes.dims.size(); ++d) reach += (axes.dims[d] - 1) * std::abs(strides[d]);
    farthest = std::max(farthest, reach);
  }
  int64_t chosen = 0;
  for (size_t k = 0; k < s.extent.size(); ++k) {
    p.extent[k] = s.extent[k];
    p.step[k] = step(k);
    chosen += (s.extent[k] - 1) * step(k);
  }
  constexpr int64_t narrow_limit = int64_t{INT32_MAX} / 2 + 1;  // of each of the parts of a destination's offset
  p.narrow = farthest < narrow_limit && chosen < narrow_limit;
}

// Updates as they lie.
std::vector<const ScatterAxis*> in_memory(const ScatterAxes& s) {
  std::vector<const ScatterAxis*> order;
  for (const ScatterAxis& a : s.axes) order.push_back(&a);
  std::stable_sort(order.begin(), order.end(), [](const ScatterAxis* a, const ScatterAxis* b) { return std::pair(a->updates, a->index[0]) > std::pair(b->updates, b->index[0]); });
  return order;
}

// Bits of a sum of so many numbers of this many bits more: 62.
int unit_bits_of(int64_t points) { return 62 - std::bit_width(static_cast<uint64_t>(points - 1)); }

}  // namespace

std::vector<CudaLaunch::Pointer> pointers_of(const ScatterAxes& s) {
  std::vector<Pointer> out = {{Pointer::status, offsetof(P, status)}, {Pointer::operand, offsetof(P, updates), s.updates}, {Pointer::operand, offsetof(P, out), s.out}};
  for (size_t k = 0; k < s.extent.size(); ++k) out.push_back({Pointer::operand, offsetof(P, index) + 8 * k, s.first_index + k});
  return out;
}

ScatterAtOnceParameters offsets_of(const ScatterAxes& s) {
  P p{};
  p.wrap = s.wrap;
  p.count = 1;
  std::vector<Destinations> places;
  for (size_t k = 0; k < s.extent.size(); ++k) places.push_back({s.extent[k], s.step[k]});
  for (const ScatterAxis& a : s.axes) {
    places.push_back({a.size, a.out.value_or(0)});
    p.count *= a.size;
  }
  set_axes(p, s, in_memory(s), places, true);
  return p;
}

std::optional<CudaLaunches> scatter_lines_cuda_launches(const ScatterAtOnce& s, const CudaMachine& machine) {
  using namespace scatter_cuda_tuning;
  P p{};
  p.wrap = s.wrap;
  const std::vector<const ScatterAxis*> order = in_memory(s);
  int64_t lines = 1, points = 1, line_places = 1;
  for (const ScatterAxis* a : order) {
    if (a->size == 1) continue;
    // A line's updates are neighbours.
    if (a->out && points > 1) return std::nullopt;
    (a->out ? lines : points) *= a->size;
  }
  for (int64_t extent : s.extent) line_places *= extent;
  if (line_places > max_line_places || lines < machine.multiprocessors || points > INT32_MAX) return std::nullopt;
  p.count = lines * points;
  p.places = lines * line_places;
  if (p.places > max_places_of_update * p.count) return std::nullopt;
  // Numbers of destinations: line by line.
  std::vector<Destinations> places(s.extent.size() + s.axes.size(), Destinations{1, 0});
  JoinedAxes numbered(1);
  int64_t number = p.places;
  auto add_axis = [&](size_t place, int64_t size, int64_t step) {
    number /= size;
    places[place] = {size, step, number};
    numbered.add(size, {step});
  };
  for (const ScatterAxis* a : order) {
    if (a->out) add_axis(s.extent.size() + static_cast<size_t>(a - s.axes.data()), a->size, *a->out);
  }
  for (size_t k = 0; k < s.extent.size(); ++k) add_axis(k, s.extent[k], s.step[k]);
  set_axes(p, s, order, places, false);
  p.place_axes = numbered.get<1>();
  p.unit_bits = unit_bits_of(points);
  // As many lines as shared memory has room for, but a block for each multiprocessor.
  const int64_t together = std::clamp<int64_t>(max_line_places / line_places, 1, lines / machine.multiprocessors);
  p.block_places = together * line_places;
  p.block_updates = together * points;
  CudaLaunches list;
  list.add(s.name + "_lines", divided_up(lines, together), threads, p, pointers_of(s));
  list.overlap();
  return list;
}

std::optional<CudaLaunches> scatter_at_once_cuda_launches(const ScatterAtOnce& s, const CudaMachine& machine) {
  P p{};
  p.wrap = s.wrap;
  p.count = p.places = 1;
  int64_t points = 1;  // the most updates of one destination
  std::vector<Destinations> places;  // the indices' axes, then the others; those that the result lacks have size 1
  for (size_t k = 0; k < s.extent.size(); ++k) places.push_back({s.extent[k], s.step[k]});
  for (const ScatterAxis& a : s.axes) {
    places.push_back({a.out ? a.size : 1, a.out.value_or(0)});
    p.count *= a.size;
    points *= a.out ? 1 : a.size;
  }
  // Destinations are numbered, and updates are read, in the order of memory.
  std::vector<Destinations*> as_they_lie;
  for (Destinations& d : places) as_they_lie.push_back(&d);
  std::stable_sort(as_they_lie.begin(), as_they_lie.end(), [](const Destinations* a, const Destinations* b) { return a->step > b->step; });
  JoinedAxes numbered(1);
  for (size_t d = as_they_lie.size(); d-- > 0;) {
    as_they_lie[d]->number = p.places;
    p.places *= as_they_lie[d]->size;
  }
  for (const Destinations* d : as_they_lie) numbered.add(d->size, {d->step});
  const std::vector<const ScatterAxis*> order = in_memory(s);
  if (s.way == ScatterWay::in_units && (p.places > scatter_cuda_tuning::max_places_of_update * p.count || points > INT32_MAX)) return std::nullopt;
  CudaLaunches list;
  const bool in_shared_memory = p.places <= scatter_cuda_tuning::max_shared_destinations && p.count >= scatter_cuda_tuning::min_updates_of_destination * p.places;
  std::vector<Pointer> pointers = pointers_of(s);
  auto add = [&](const std::string& kernel, int64_t work) { list.add(kernel, divided_up(work, scatter_cuda_tuning::threads), scatter_cuda_tuning::threads, p, pointers); };
  auto add_updates = [&](const std::string& kernel) {
    if (!in_shared_memory) return add(kernel, p.count);
    using namespace scatter_cuda_tuning;
    list.add(kernel + "_shared", std::min(divided_up(p.count, updates_of_thread * shared_threads), blocks_of_multiprocessor * machine.multiprocessors), shared_threads, p,
             pointers);
  };
  if (s.way == ScatterWay::at_once) {
    set_axes(p, s, order, places, !in_shared_memory);
    p.place_axes = numbered.get<1>();
    add_updates(s.name);
    list.overlap();
    return list;
  }
  pointers.push_back({Pointer::scratch, offsetof(P, exponents), 0, list.reserve(4 * p.places)});
  pointers.push_back({Pointer::scratch, offsetof(P, sums), 0, list.reserve(8 * p.places)});
  p.unit_bits = unit_bits_of(points);
  set_axes(p, s, order, places, false);
  JoinedAxes themselves(1);
  themselves.add(p.places, {1});
  p.place_axes = themselves.get<1>();
  add(scatter_clear_cuda_name, p.places);
  add_updates(s.name + "_exponents");
  add_updates(s.name + "_units");
  p.place_axes = numbered.get<1>();
  add(s.name + "_finish", p.places);
  list.overlap();
  return list;
}

}  // namespace ingot::kernels
