#include "backend/cuda/kernels/sort/run/sort_launches.h"

#include <algorithm>
#include <cstddef>

#include "backend/cuda/kernels/sort/run/sort_args.h"
#include "backend/cuda/run/launch.h"
#include "base/error.h"
#include "kernels/sort/run/sort_checks.h"

namespace ingot::kernels {

namespace {

using Pointer = CudaLaunch::Pointer;

// Sorts tiles, then merges until one run is left. `source`: the operand of `in`.
SortedKeys sort_tiles(CudaLaunches& list, SortCudaParameters& p, const std::string& tiles_kernel, size_t key_bytes, const Pointer& source) {
  if (p.length > int64_t{UINT32_MAX}) fail(Code::unsupported, "a sort over {} elements is too large for a GPU", p.length);
  p.tiles = divided_up(p.length, sort_cuda_tuning::tile);
  p.capacity = p.capacity_to = std::min(p.k, sort_cuda_tuning::tile);
  p.runs = p.tiles;
  p.last = std::min(p.length - (p.tiles - 1) * sort_cuda_tuning::tile, p.capacity);
  p.room = p.tiles * p.capacity;
  auto rooms = [&] { return SortedKeys{list.reserve(p.lines * p.room * static_cast<int64_t>(key_bytes)), list.reserve(p.lines * p.room * 4), p.room}; };
  SortedKeys now = rooms(), other;
  if (p.tiles > 1) other = rooms();
  list.add(tiles_kernel, p.lines * p.tiles, sort_cuda_tuning::threads, p,
           {source, {Pointer::scratch, offsetof(SortCudaParameters, keys_to), 0, now.keys}, {Pointer::scratch, offsetof(SortCudaParameters, order_to), 0, now.order}});
  while (p.runs > 1) {
    int64_t pairs = divided_up(p.runs, 2);
    p.capacity_to = std::min(2 * p.capacity, p.k);
    p.blocks = divided_up(p.capacity_to, sort_cuda_tuning::tile);
    list.add(sort_merge_cuda_name(key_bytes), p.lines * pairs * p.blocks, sort_cuda_tuning::threads, p,
             {{Pointer::scratch, offsetof(SortCudaParameters, keys), 0, now.keys},
              {Pointer::scratch, offsetof(SortCudaParameters, order), 0, now.order},
              {Pointer::scratch, offsetof(SortCudaParameters, keys_to), 0, other.keys},
              {Pointer::scratch, offsetof(SortCudaParameters, order_to), 0, other.order}});
    p.last = std::min(p.runs % 2 == 1 ? p.last : p.capacity + p.last, p.capacity_to);
    p.runs = pairs;
    p.capacity = p.capacity_to;
    std::swap(now, other);
  }
  return now;
}

}  // namespace

CudaLaunches sort_cuda_launches(const Call& call, const CudaMachine&) {
  check_sort(call);
  const auto& args = *static_cast<const SortArgs*>(call.constants);
  const TensorRef &in = call.operands[0], &values = call.operands[1], &indices = call.operands[2];
  JoinedAxes lines(3);
  for (int d = 0; d < in.rank; ++d) {
    if (d != args.axis) lines.add(in.dims[d], {in.strides[d], values.strides[d], indices.strides[d]});
  }
  auto of_axis = [&](const int64_t* numbers, int64_t without) { return in.rank == 0 ? without : numbers[args.axis]; };
  SortCudaParameters p{};
  p.lines = lines.points;
  p.length = of_axis(in.dims, 1);
  p.k = of_axis(values.dims, 1);
  p.in_step = of_axis(in.strides, 0);
  p.values_step = of_axis(values.strides, 0);
  p.indices_step = of_axis(indices.strides, 0);
  p.axes = lines.get<3>();
  p.descending = args.descending;
  CudaLaunches list;
  if (p.lines == 0 || p.k == 0) return list;
  std::string name = sort_cuda_name(in.dtype);
  Pointer source{Pointer::operand, offsetof(SortCudaParameters, in), 0};
  std::vector<Pointer> pointers = {source, {Pointer::operand, offsetof(SortCudaParameters, values), 1}, {Pointer::operand, offsetof(SortCudaParameters, indices), 2}};
  if (p.length <= sort_cuda_tuning::tile) {
    const sort_cuda_tuning::Line* line = std::begin(sort_cuda_tuning::lines);
    while (line->threads * line->items < p.length) ++line;
    list.add(sort_line_cuda_name(in.dtype, *line), p.lines, static_cast<uint32_t>(line->threads), p, pointers);
    list.overlap();
    return list;
  }
  SortedKeys sorted = sort_tiles(list, p, name + "_tiles", sort_key_bytes(in.dtype), source);
  pointers.push_back({Pointer::scratch, offsetof(SortCudaParameters, order), 0, sorted.order});
  list.add(name + "_take", divided_up(p.lines * p.k, sort_cuda_tuning::threads), sort_cuda_tuning::threads, p, pointers);
  list.overlap();
  return list;
}

SortedKeys sort_keys_cuda(CudaLaunches& list, size_t keys, int64_t lines, int64_t length) {
  SortCudaParameters p{};
  p.lines = lines;
  p.length = p.k = length;
  p.in_step = 1;
  JoinedAxes axes(3);
  axes.add(lines, {length, 0, 0});
  p.axes = axes.get<3>();
  return sort_tiles(list, p, std::string(sort_keys_cuda_name) + "_tiles", 8, {Pointer::scratch, offsetof(SortCudaParameters, in), 0, keys});
}

std::span<const RunKernel> sort_cuda_kernels() {
  static constexpr RunKernel list[] = {{"sort", load_sort, resolved<sort_cuda_launches>, run_launches}};
  return list;
}

}  // namespace ingot::kernels
