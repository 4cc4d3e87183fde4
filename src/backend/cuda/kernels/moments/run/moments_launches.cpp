#include "backend/cuda/kernels/moments/run/moments_launches.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>

#include "backend/cuda/kernels/moments/run/moments_args.h"
#include "backend/cuda/run/launch.h"
#include "base/error.h"
#include "kernels/moments/run/moments_args.h"

namespace ingot::kernels {

namespace {

using P = MomentsCudaParameters;
using Pointer = CudaLaunch::Pointer;

// Columns: [rows of columns.., places.., groups, each]; the groups' columns are contiguous.
struct Columns {
  int64_t each = 1, groups = 1, places = 1, step = 0;
  JoinedAxes outer{1};
};
std::optional<Columns> columns_of(const MomentsArgs& args, const TensorRef& in) {
  Columns out;
  JoinedAxes places(1);
  auto reduced = [&](int d) { return args.reduced[static_cast<size_t>(d)] != 0; };
  int d = in.rank - 1;
  while (d >= 0 && in.dims[d] == 1) --d;
  if (d >= 0 && reduced(d) && in.strides[d] == 1) out.each = in.dims[d--];
  while (d >= 0 && in.dims[d] == 1) --d;
  if (d < 0 || reduced(d) || out.each == 0 || in.strides[d] != out.each) return std::nullopt;
  out.groups = in.dims[d];
  for (int axis = 0; axis < d; ++axis) (reduced(axis) ? places : out.outer).add(in.dims[axis], {in.strides[axis]});
  if (places.dims.size() != 1) return std::nullopt;
  out.places = places.dims[0];
  out.step = places.strides[0][0];
  return out;
}

// Elements per load: 16 bytes if every row of columns is aligned to them.
int64_t together(const Columns& c, size_t bytes) {
  const int64_t vector = 16 / static_cast<int64_t>(bytes);
  bool fits = c.groups * c.each % vector == 0 && c.step % vector == 0;
  for (int64_t s : c.outer.strides[0]) fits = fits && s % vector == 0;
  return fits ? vector : 1;
}

// The number of blocks side by side for which most threads have a vector of a row to load.
int64_t best_tiles(int64_t vectors) {
  int64_t best = 1, most_busy = 0;
  for (int64_t tiles = divided_up(vectors, moments_cuda_tuning::threads), end = tiles + 4; tiles < end; ++tiles) {
    const int64_t width = divided_up(vectors, tiles), busy = moments_cuda_tuning::threads / width * vectors / tiles;
    if (busy > most_busy) most_busy = busy, best = tiles;
  }
  return best;
}

}  // namespace

CudaLaunches moments_cuda_launches(const Call& call, const CudaMachine& machine) {
  check_moments(call);
  const auto& args = *static_cast<const MomentsArgs*>(call.constants);
  const TensorRef &in = call.operands[0], &sums = call.operands[1], &squares = call.operands[2];
  JoinedAxes results(2), rows(1), elements(1);
  int kept = 0;
  for (int d = 0; d < in.rank; ++d) {
    if (args.reduced[static_cast<size_t>(d)] != 0) {
      elements.add(in.dims[d], {in.strides[d]});
    } else {
      rows.add(in.dims[d], {in.strides[d]});
      results.add(in.dims[d], {sums.strides[kept], squares.strides[kept]});
      ++kept;
    }
  }
  CudaLaunches list;
  if (results.points == 0) return list;
  P p{};
  p.rows = results.points;
  p.results = results.get<2>();
  p.own = p.unit = p.groups = p.tiles = 1;
  const std::string name = moments_cuda_name(in.dtype);
  const int64_t wanted = int64_t{4} * machine.multiprocessors;
  std::vector<Pointer> pointers = {{Pointer::operand, offsetof(P, in), 0}};
  auto launch = [&](int64_t vector) {
    CudaLaunches one = list;
    P q = p;
    int64_t outer = q.rows, width = 1;
    std::string kernel = name + "_rows";
    if (const auto c = columns_of(args, in)) {
      q.groups = c->groups;
      q.columns = c->groups * c->each;
      q.unit = std::gcd(vector, c->each);
      width = q.columns / q.unit;
      q.own = c->each / q.unit;
      q.length = c->places;
      q.step = c->step;
      q.from = c->outer.get<1>();
      outer = c->outer.points;
      q.tiles = best_tiles(q.columns / vector);
      q.width = divided_up(q.columns / vector, q.tiles);
      kernel = fmt::format("{}_columns_{}_{}", name, vector, q.unit);
    } else {
      q.length = elements.points;
      q.from = rows.get<1>();
      q.elements = elements.get<1>();
    }
    const int64_t work = 4 * (q.columns > 0 ? moments_cuda_tuning::threads / q.width : int64_t{moments_cuda_tuning::threads});  // per block: four loads per thread
    q.chunk = std::max(work, divided_up(q.length, std::max<int64_t>(1, wanted / std::max<int64_t>(1, outer * q.tiles))));
    q.chunks = std::max<int64_t>(1, divided_up(q.length, q.chunk));
    std::vector<Pointer> here = pointers;
    here.push_back({Pointer::scratch, offsetof(P, parts), 0, one.reserve(8 * outer * q.chunks * width)});
    one.add(kernel, outer * q.chunks * q.tiles, moments_cuda_tuning::threads, q, here);
    here.push_back({Pointer::operand, offsetof(P, sums), 1});
    here.push_back({Pointer::operand, offsetof(P, squares), 2});
    one.add(moments_merge_cuda_name, q.rows, moments_cuda_tuning::threads, q, here);
    return one;
  };
  const auto columns = columns_of(args, in);
  const int64_t vector = columns ? together(*columns, ir::size_of(in.dtype)) : 1;
  CudaLaunches out = launch(vector);
  if (vector == 1) return out;
  CudaLaunches any = launch(1);
  out.aligned = {0};
  out.any = std::move(any.list);
  out.scratch = std::max(out.scratch, any.scratch);
  return out;
}

std::span<const RunKernel> moments_cuda_kernels() {
  static constexpr RunKernel list[] = {{"moments", load_moments, resolved<moments_cuda_launches>, run_launches}};
  return list;
}

}  // namespace ingot::kernels
