// Moments on the CPU: sums and sums of squares in double, for many columns at once, in one pass in memory order. The square of a float is exact in double, so
// the difference of the two sums is as accurate as a second pass.
//
// Memory is split along one reduced axis, the places. What is contiguous inside it are the columns: a row of a channels-last image, or part of a row that is
// summed as a whole. Chunks of places are summed separately and then added in order, so that results do not depend on the number of threads.
#include <algorithm>
#include <cstring>

#include "backend/cpu/kernels/fused/run/block_ops.h"
#include "backend/cpu/kernels/moments/run/tuning.h"
#include "kernels/moments/run/moments_args.h"
#include "kernels/run/kernel.h"

namespace ingot::kernels {

namespace {

namespace tuning = moments::tuning;
using ir::DType;

struct Axis {
  int64_t extent, stride;
  bool reduced;
  int64_t to;  // of a kept axis: its stride in the results, counted densely
};

struct Plan {
  std::vector<Axis> outer;           // all axes but places and columns
  int64_t blocks = 1;                // number of elements of outer
  int64_t places = 1, place_step = 0;
  int64_t columns = 1;
  std::vector<int64_t> of_column;    // the dense index of each column's result
  int64_t chunk = 1, chunks = 1;     // places per chunk; chunks per block
  int64_t results = 1, count = 1;    // kept elements; reduced elements of each
  std::vector<int64_t> sum_at, square_at;  // offset of each result, in elements
  size_t part_bytes = 0, widened = 0;      // bytes of one chunk's sums; of one worker's places converted to contiguous floats
  size_t totals = 0;                       // bytes of the results' sums
};

size_t padded(int64_t bytes) { return static_cast<size_t>((bytes + 63) / 64 * 64); }

// The input's axes, outermost in memory first, with axes merged that can be walked as one.
std::vector<Axis> axes_in_memory(const TensorRef& in, const MomentsArgs& args) {
  std::vector<Axis> axes;
  int64_t to = 1;
  for (int d = in.rank; d-- > 0;) {
    const bool reduced = args.reduced[static_cast<size_t>(d)] != 0;
    if (in.dims[d] != 1) axes.push_back({in.dims[d], in.strides[d], reduced, reduced ? 0 : to});
    if (!reduced) to *= in.dims[d];
  }
  std::stable_sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return std::abs(a.stride) > std::abs(b.stride); });
  for (size_t a = axes.size(); a-- > 1;) {
    const Axis &inner = axes[a], &outer = axes[a - 1];
    if (!inner.reduced || !outer.reduced || outer.stride != inner.stride * inner.extent) continue;
    axes[a - 1] = {inner.extent * outer.extent, inner.stride, true, 0};
    axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(a));
  }
  return axes;
}

void cut(Plan& p, std::vector<Axis> axes) {
  // Places: the longest reduced axis.
  size_t place = axes.size();
  for (size_t a = 0; a < axes.size(); ++a) {
    if (axes[a].reduced && (place == axes.size() || axes[a].extent > axes[place].extent)) place = a;
  }
  int64_t dense = 1;
  size_t first = axes.size();  // of the columns
  while (first > place + 1 && first > 0 && axes[first - 1].stride == dense && dense * axes[first - 1].extent <= tuning::max_columns) dense *= axes[--first].extent;
  p.of_column.assign(static_cast<size_t>(dense), 0);
  p.columns = dense;
  for (int64_t c = 0; c < dense; ++c) {
    int64_t rest = c;
    for (size_t a = axes.size(); a-- > first;) {
      p.of_column[static_cast<size_t>(c)] += rest % axes[a].extent * axes[a].to;
      rest /= axes[a].extent;
    }
  }
  for (size_t a = 0; a < axes.size(); ++a) {
    if (a == place || a >= first) continue;
    p.outer.push_back(axes[a]);
    p.blocks *= axes[a].extent;
  }
  if (place < axes.size()) {
    p.places = axes[place].extent;
    p.place_step = axes[place].stride;
  }
}

Resolved resolve(const Call& call) {
  check_moments(call);
  const auto& args = *static_cast<const MomentsArgs*>(call.constants);
  const TensorRef &in = call.operands[0], &sums = call.operands[1], &squares = call.operands[2];
  auto p = std::make_shared<Plan>();
  for (int d = 0; d < in.rank; ++d) (args.reduced[static_cast<size_t>(d)] != 0 ? p->count : p->results) *= in.dims[d];
  for (const auto& [of, at] : {std::pair(&sums, &p->sum_at), std::pair(&squares, &p->square_at)}) {
    for (int64_t r = 0; r < p->results; ++r) {
      int64_t rest = r, place = 0;
      for (int d = of->rank; d-- > 0; rest /= of->dims[d]) place += rest % of->dims[d] * of->strides[d];
      at->push_back(place);
    }
  }
  if (p->results == 0 || p->count == 0) return {0, p};
  cut(*p, axes_in_memory(in, args));
  p->chunk = std::max<int64_t>(1, tuning::part_elements / p->columns);
  // Bounds the number of parts by their memory.
  p->chunk = std::max(p->chunk, (p->places * p->blocks + tuning::max_parts - 1) / tuning::max_parts);
  p->chunks = (p->places + p->chunk - 1) / p->chunk;
  p->part_bytes = padded(p->columns * 16);
  p->widened = in.dtype == DType::f32 && p->columns > 1 ? 0 : padded(std::max(tuning::segment_elements, p->columns) * 4);
  p->totals = padded(p->results * 16);
  return {p->totals + static_cast<size_t>(p->blocks * p->chunks) * p->part_bytes + static_cast<size_t>(call.workers->count()) * p->widened, p};
}

// Places are contiguous: with few columns, several places are taken at a time.
void add_places(const Plan& p, double* sums, const float* from, int64_t places, bool first) {
  const BlockOps& ops = block_ops();
  const int64_t times = tuning::lanes_of_pass / p.columns, whole = times > 1 ? places / times : 0;
  if (whole > 0) {
    double s[2 * tuning::lanes_of_pass];
    ops.take_moments(s, s + tuning::lanes_of_pass, from, times * p.columns, whole, true, times * p.columns);
    for (int64_t c = 0; c < p.columns; ++c) {
      double sum = first ? 0 : sums[c], square = first ? 0 : sums[p.columns + c];
      for (int64_t t = 0; t < times; ++t) sum += s[t * p.columns + c], square += s[tuning::lanes_of_pass + t * p.columns + c];
      sums[c] = sum, sums[p.columns + c] = square;
    }
    from += whole * times * p.columns;
    places -= whole * times;
    first = false;
  }
  if (places > 0) ops.take_moments(sums, sums + p.columns, from, p.columns, places, first, p.columns);
}

// Writes one chunk's sums, then its sums of squares, one of each per column.
void add_chunk(const Plan& p, const TensorRef& in, int64_t part, double* sums, float* widened) {
  const int64_t chunk = part % p.chunks, first = chunk * p.chunk, places = std::min(p.chunk, p.places - first), size = static_cast<int64_t>(ir::size_of(in.dtype));
  int64_t rest = part / p.chunks, from = first * p.place_step;
  for (size_t a = p.outer.size(); a-- > 0; rest /= p.outer[a].extent) from += rest % p.outer[a].extent * p.outer[a].stride;
  const std::byte* data = in.data + from * size;
  const auto* floats = reinterpret_cast<const float*>(data);
  const BlockOps& ops = block_ops();
  if (in.dtype == DType::f32 && p.place_step == p.columns) return add_places(p, sums, floats, places, true);
  if (in.dtype == DType::f32 && p.columns > 1) return ops.take_moments(sums, sums + p.columns, floats, p.place_step, places, true, p.columns);
  const int64_t segment = std::max<int64_t>(1, tuning::segment_elements / p.columns);
  for (int64_t done = 0; done < places; done += segment) {
    const int64_t n = std::min(segment, places - done);
    const std::byte* of_segment = data + done * p.place_step * size;
    if (p.columns == 1 || p.place_step == p.columns) {
      ops.load(in.dtype, widened, of_segment, p.columns == 1 ? p.place_step : 1, n * p.columns);
    } else {
      for (int64_t k = 0; k < n; ++k) ops.load(in.dtype, widened + k * p.columns, of_segment + k * p.place_step * size, 1, p.columns);
    }
    add_places(p, sums, widened, n, done == 0);
  }
}

void run(const Call& call) {
  const auto& p = *static_cast<const Plan*>(call.prepared);
  const TensorRef &in = call.operands[0], &sums = call.operands[1], &squares = call.operands[2];
  if (p.results == 0) return;
  auto put = [](const TensorRef& to, int64_t at, double x) { reinterpret_cast<float*>(to.data)[at] = static_cast<float>(x); };
  if (p.count == 0) {
    for (size_t r = 0; r < p.sum_at.size(); ++r) put(sums, p.sum_at[r], 0), put(squares, p.square_at[r], 0);
    return;
  }
  auto* totals = reinterpret_cast<double*>(call.scratch);
  std::byte *parts = call.scratch + p.totals, *widened = parts + static_cast<size_t>(p.blocks * p.chunks) * p.part_bytes;
  auto of_part = [&](int64_t part) { return reinterpret_cast<double*>(parts + static_cast<size_t>(part) * p.part_bytes); };
  const int64_t count = p.blocks * p.chunks, tasks = p.count * p.results < tuning::least_divided ? 1 : std::min<int64_t>(count, 4 * call.workers->count());
  call.workers->run(tasks, [&](int64_t task, int worker) {
    auto* own = reinterpret_cast<float*>(widened + static_cast<size_t>(worker) * p.widened);
    for (int64_t part = count * task / tasks; part < count * (task + 1) / tasks; ++part) add_chunk(p, in, part, of_part(part), own);
  });
  std::fill(totals, totals + 2 * p.results, 0.0);
  for (int64_t part = 0; part < count; ++part) {
    int64_t rest = part / p.chunks, block = 0;
    for (size_t a = p.outer.size(); a-- > 0; rest /= p.outer[a].extent) block += rest % p.outer[a].extent * p.outer[a].to;
    const double* from = of_part(part);
    for (int64_t c = 0; c < p.columns; ++c) {
      const int64_t r = block + p.of_column[static_cast<size_t>(c)];
      totals[2 * r] += from[c];
      totals[2 * r + 1] += from[p.columns + c];
    }
  }
  for (size_t r = 0; r < p.sum_at.size(); ++r) {
    const double sum = totals[2 * r], square = totals[2 * r + 1];
    put(sums, p.sum_at[r], sum);
    put(squares, p.square_at[r], std::max(square - sum * sum / static_cast<double>(p.count), 0.0) + (square - square));
  }
}

}  // namespace

std::span<const RunKernel> moments_cpu_kernels() {
  static constexpr RunKernel list[] = {{"moments", load_moments, resolve, run}};
  return list;
}

}  // namespace ingot::kernels
