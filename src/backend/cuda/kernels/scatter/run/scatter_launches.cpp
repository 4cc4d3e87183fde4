#include "backend/cuda/kernels/scatter/run/scatter_launches.h"

#include <algorithm>
#include <cstddef>

#include "backend/cuda/kernels/scatter/run/scatter_args.h"
#include "backend/cuda/kernels/scatter/run/scatter_at_once_launches.h"
#include "backend/cuda/kernels/sort/run/sort_launches.h"
#include "backend/cuda/run/launch.h"
#include "base/error.h"
#include "kernels/scatter/run/scatter_checks.h"

namespace ingot::kernels {

namespace {

using Pointer = CudaLaunch::Pointer;
using P = ScatterCudaParameters;

// Computes the keys, sorts them, and launches the kernel that writes. `pointers`: of the operands.
CudaLaunches sorted_launches(const ScatterArgs& args, P p, ir::DType type, std::vector<Pointer> pointers) {
  CudaLaunches list;
  if (p.lines == 0 || p.points == 0 || p.elements == 0) return list;
  pointers.push_back({Pointer::status, offsetof(P, status)});
  size_t keys = list.reserve(8 * p.lines * p.points);
  p.room = p.points;
  auto with_keys = pointers;
  with_keys.push_back({Pointer::scratch, offsetof(P, keys), 0, keys});
  list.add(scatter_keys_cuda_name, divided_up(p.lines * p.points, scatter_cuda_tuning::threads), scatter_cuda_tuning::threads, p, with_keys);
  if (p.points > 1) {
    SortedKeys sorted = sort_keys_cuda(list, keys, p.lines, p.points);
    p.room = sorted.room;
    with_keys = pointers;
    with_keys.push_back({Pointer::scratch, offsetof(P, keys), 0, sorted.keys});
    with_keys.push_back({Pointer::scratch, offsetof(P, order), 0, sorted.order});
  }
  std::string name = scatter_cuda_name(args.kind, type);
  if (args.kind == ScatterArgs::Kind::set) {
    list.add(name, divided_up(p.lines * p.points * p.elements, scatter_cuda_tuning::threads), scatter_cuda_tuning::threads, p, with_keys);
    list.overlap();
    return list;
  }
  int64_t chunks = std::clamp<int64_t>(scatter_cuda_tuning::max_chunk_threads / (p.lines * p.elements), 1, divided_up(p.points, scatter_cuda_tuning::min_chunk));
  p.chunk = divided_up(p.points, chunks);
  p.chunks = divided_up(p.points, p.chunk);
  int64_t threads = p.lines * p.chunks * p.elements;
  if (p.chunks > 1) {
    with_keys.push_back({Pointer::scratch, offsetof(P, begun), 0, list.reserve(8 * threads)});
    with_keys.push_back({Pointer::scratch, offsetof(P, ended), 0, list.reserve(8 * threads)});
  }
  list.add(name + "_chunks", divided_up(threads, scatter_cuda_tuning::threads), scatter_cuda_tuning::threads, p, with_keys);
  if (p.chunks > 1) list.add(name + "_rest", divided_up(threads, scatter_cuda_tuning::threads), scatter_cuda_tuning::threads, p, with_keys);
  list.overlap();
  return list;
}

bool empty(const TensorRef& t) { return std::find(t.dims, t.dims + t.rank, 0) != t.dims + t.rank; }

// A destination is identified by its offset in the result, which is not empty.
void set_index(P& p, size_t k, int64_t extent, int64_t step) {
  p.extent[k] = extent;
  p.step[k] = extent == 1 ? 0 : step;
  if (extent > 1 && step <= 0) fail(Code::unsupported, "a scatter into a tensor with stride {}", step);
}

// nullopt if the points must be sorted. `updates` and so on: which operands these are.
std::optional<CudaLaunches> at_once(const ScatterArgs& args, const P& p, ir::DType type, std::vector<ScatterAxis> axes, size_t updates, size_t first_index, size_t out,
                                    const CudaMachine& machine) {
  const size_t indices = args.axes.size();
  const ScatterWay way = scatter_way(args.kind, type);
  if (way == ScatterWay::sorted) return std::nullopt;
  const ScatterAtOnce s{
      way, scatter_at_once_cuda_name(args.kind, type, indices), std::move(axes), {p.extent, p.extent + indices}, {p.step, p.step + indices}, p.wrap != 0, updates, first_index,
      out};
  return scatter_at_once_cuda_launches(s, machine);
}

}  // namespace

CudaLaunches scatter_cuda_launches(const Call& call, const CudaMachine& machine) {
  check_scatter(call);
  const auto& args = *static_cast<const ScatterArgs*>(call.constants);
  const TensorRef &updates = call.operands[0], &out = call.operands.back(), &first = call.operands[1];
  if (empty(out) || empty(updates)) return {};  // strides of an empty tensor mean nothing
  if (args.axes.size() > scatter_cuda_tuning::max_indices)
    fail(Code::unsupported, "a scatter by {} indices is not possible on a GPU: {} are", args.axes.size(), scatter_cuda_tuning::max_indices);
  P p{};
  p.indices = static_cast<int>(args.axes.size());
  p.wrap = args.wrap;
  std::vector<Pointer> pointers = {{Pointer::operand, offsetof(P, updates), 0}, {Pointer::operand, offsetof(P, out), call.operands.size() - 1}};
  JoinedAxes points(1 + scatter_cuda_tuning::max_indices), elements(2);
  std::vector<ScatterAxis> axes;
  for (size_t k = 0; k < args.axes.size(); ++k) {
    set_index(p, k, out.dims[args.axes[k]], out.strides[args.axes[k]]);
    pointers.push_back({Pointer::operand, offsetof(P, index) + 8 * k, 1 + k});
  }
  for (int d = 0; d < first.rank; ++d) {
    ScatterAxis& axis = axes.emplace_back(ScatterAxis{first.dims[d], updates.strides[args.position + d]});
    for (size_t k = 0; k < args.axes.size(); ++k) axis.index[k] = call.operands[1 + k].strides[d];
    std::vector<int64_t> steps{axis.updates};
    steps.insert(steps.end(), axis.index.begin(), axis.index.end());
    points.add(axis.size, steps);
  }
  for (int d = 0, rest = 0; d < out.rank; ++d) {
    if (scattered(args, d)) continue;
    const int64_t step = updates.strides[rest < args.position ? rest : rest + first.rank];
    axes.push_back({out.dims[d], step, {}, out.strides[d]});
    elements.add(out.dims[d], {step, out.strides[d]});
    ++rest;
  }
  if (auto list = at_once(args, p, out.dtype, std::move(axes), 0, 1, call.operands.size() - 1, machine)) return *std::move(list);
  p.lines = 1;
  p.points = points.points;
  p.elements = elements.points;
  p.point_axes = points.get<9>();
  p.element_axes = elements.get<2>();
  return sorted_launches(args, p, out.dtype, std::move(pointers));
}

CudaLaunches scatter_along_cuda_launches(const Call& call, const CudaMachine& machine) {
  check_scatter_along(call);
  const auto& args = *static_cast<const ScatterArgs*>(call.constants);
  const TensorRef &index = call.operands[0], &updates = call.operands[1], &out = call.operands[2];
  if (empty(out) || empty(index)) return {};
  P p{};
  p.indices = 1;
  p.wrap = args.wrap;
  JoinedAxes lines(3), points(1 + scatter_cuda_tuning::max_indices);
  std::vector<ScatterAxis> axes;
  for (int d = 0; d < out.rank; ++d) {
    if (d == args.axes[0]) continue;
    lines.add(index.dims[d], {index.strides[d], updates.strides[d], out.strides[d]});
    axes.push_back({index.dims[d], updates.strides[d], {index.strides[d]}, out.strides[d]});
  }
  if (out.rank == 0) {
    set_index(p, 0, 1, 0);
  } else {
    int axis = args.axes[0];
    set_index(p, 0, out.dims[axis], out.strides[axis]);
    points.add(index.dims[axis], {updates.strides[axis], index.strides[axis], 0, 0, 0, 0, 0, 0, 0});
    axes.push_back({index.dims[axis], updates.strides[axis], {index.strides[axis]}});
  }
  if (auto list = at_once(args, p, out.dtype, std::move(axes), 1, 0, 2, machine)) return *std::move(list);
  p.lines = lines.points;
  p.points = points.points;
  p.elements = 1;
  p.line_axes = lines.get<3>();
  p.point_axes = points.get<9>();
  return sorted_launches(args, p, out.dtype, {{Pointer::operand, offsetof(P, index), 0}, {Pointer::operand, offsetof(P, updates), 1}, {Pointer::operand, offsetof(P, out), 2}});
}

std::span<const RunKernel> scatter_cuda_kernels() {
  static constexpr RunKernel list[] = {{"scatter", load_scatter, resolved<scatter_cuda_launches>, run_launches},
                                       {"scatter_along", load_scatter_along, resolved<scatter_along_cuda_launches>, run_launches}};
  return list;
}

}  // namespace ingot::kernels
