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
  const std::string name = scatter_cuda_name(args.kind, type);
  if (args.kind == ScatterArgs::Kind::set && p.points <= scatter_cuda_tuning::max_few_points && p.lines * p.points * p.elements < INT32_MAX) {
    list.add(name + "_few", divided_up(p.lines * p.points * p.elements, scatter_cuda_tuning::threads), scatter_cuda_tuning::threads, p, pointers);
    list.overlap();
    return list;
  }
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
void add_index(ScatterAxes& s, int64_t extent, int64_t step) {
  s.extent.push_back(extent);
  s.step.push_back(extent == 1 ? 0 : step);
  if (extent > 1 && step <= 0) fail(Code::unsupported, "a scatter into a tensor with stride {}", step);
}

P parameters_of(const ScatterAxes& s) {
  P p{};
  p.indices = static_cast<int>(s.extent.size());
  p.wrap = s.wrap;
  std::copy(s.extent.begin(), s.extent.end(), p.extent);
  std::copy(s.step.begin(), s.step.end(), p.step);
  return p;
}

// nullopt if the points must be sorted.
std::optional<CudaLaunches> at_once(const ScatterArgs& args, ir::DType type, const ScatterAxes& axes, const CudaMachine& machine) {
  const ScatterWay way = scatter_way(args.kind, type);
  const bool lines = has_scatter_lines(args.kind, type);
  if (way == ScatterWay::sorted && !lines) return std::nullopt;
  const ScatterAtOnce s{axes, way, scatter_at_once_cuda_name(args.kind, type, axes.extent.size())};
  if (lines) {
    if (auto list = scatter_lines_cuda_launches(s, machine)) return list;
  }
  if (way == ScatterWay::sorted) return std::nullopt;
  return scatter_at_once_cuda_launches(s, machine);
}

}  // namespace

std::optional<ScatterAxes> axes_of_scatter(const Call& call) {
  check_scatter(call);
  const auto& args = *static_cast<const ScatterArgs*>(call.constants);
  const TensorRef &updates = call.operands[0], &out = call.operands.back(), &first = call.operands[1];
  if (empty(out) || empty(updates)) return std::nullopt;  // strides of an empty tensor mean nothing
  if (args.axes.size() > scatter_cuda_tuning::max_indices)
    fail(Code::unsupported, "a scatter by {} indices is not possible on a GPU: {} are", args.axes.size(), scatter_cuda_tuning::max_indices);
  ScatterAxes s;
  s.wrap = args.wrap;
  s.first_index = 1;
  s.out = call.operands.size() - 1;
  for (uint8_t axis : args.axes) add_index(s, out.dims[axis], out.strides[axis]);
  for (int d = 0; d < first.rank; ++d) {
    ScatterAxis& axis = s.axes.emplace_back(ScatterAxis{first.dims[d], updates.strides[args.position + d]});
    for (size_t k = 0; k < args.axes.size(); ++k) axis.index[k] = call.operands[1 + k].strides[d];
  }
  for (int d = 0, rest = 0; d < out.rank; ++d) {
    if (scattered(args, d)) continue;
    s.axes.push_back({out.dims[d], updates.strides[rest < args.position ? rest : rest + first.rank], {}, out.strides[d]});
    ++rest;
  }
  return s;
}

std::optional<ScatterAxes> axes_of_scatter_along(const Call& call) {
  check_scatter_along(call);
  const auto& args = *static_cast<const ScatterArgs*>(call.constants);
  const TensorRef &index = call.operands[0], &updates = call.operands[1], &out = call.operands[2];
  if (empty(out) || empty(index)) return std::nullopt;
  ScatterAxes s;
  s.wrap = args.wrap;
  s.updates = 1;
  s.out = 2;
  const int along = args.axes[0];
  for (int d = 0; d < out.rank; ++d) {
    if (d != along) s.axes.push_back({index.dims[d], updates.strides[d], {index.strides[d]}, out.strides[d]});
  }
  if (out.rank == 0) {
    add_index(s, 1, 0);
  } else {
    add_index(s, out.dims[along], out.strides[along]);
    s.axes.push_back({index.dims[along], updates.strides[along], {index.strides[along]}});
  }
  return s;
}

CudaLaunches scatter_cuda_launches(const Call& call, const CudaMachine& machine) {
  const auto s = axes_of_scatter(call);
  if (!s) return {};
  const auto& args = *static_cast<const ScatterArgs*>(call.constants);
  const ir::DType type = call.operands.back().dtype;
  if (auto list = at_once(args, type, *s, machine)) return *std::move(list);
  JoinedAxes points(1 + scatter_cuda_tuning::max_indices), elements(2);
  for (const ScatterAxis& a : s->axes) {
    if (a.out) {
      elements.add(a.size, {a.updates, *a.out});
      continue;
    }
    std::vector<int64_t> steps{a.updates};
    steps.insert(steps.end(), a.index.begin(), a.index.end());
    points.add(a.size, steps);
  }
  P p = parameters_of(*s);
  p.lines = 1;
  p.points = points.points;
  p.elements = elements.points;
  p.point_axes = points.get<9>();
  p.element_axes = elements.get<2>();
  std::vector<Pointer> pointers = {{Pointer::operand, offsetof(P, updates), s->updates}, {Pointer::operand, offsetof(P, out), s->out}};
  for (size_t k = 0; k < s->extent.size(); ++k) pointers.push_back({Pointer::operand, offsetof(P, index) + 8 * k, s->first_index + k});
  return sorted_launches(args, p, type, std::move(pointers));
}

CudaLaunches scatter_along_cuda_launches(const Call& call, const CudaMachine& machine) {
  const auto s = axes_of_scatter_along(call);
  if (!s) return {};
  const auto& args = *static_cast<const ScatterArgs*>(call.constants);
  const ir::DType type = call.operands.back().dtype;
  if (auto list = at_once(args, type, *s, machine)) return *std::move(list);
  JoinedAxes lines(3), points(1 + scatter_cuda_tuning::max_indices);
  for (const ScatterAxis& a : s->axes) {
    if (a.out)
      lines.add(a.size, {a.index[0], a.updates, *a.out});
    else
      points.add(a.size, {a.updates, a.index[0], 0, 0, 0, 0, 0, 0, 0});
  }
  P p = parameters_of(*s);
  p.lines = lines.points;
  p.points = points.points;
  p.elements = 1;
  p.line_axes = lines.get<3>();
  p.point_axes = points.get<9>();
  return sorted_launches(args, p, type, {{Pointer::operand, offsetof(P, index), 0}, {Pointer::operand, offsetof(P, updates), 1}, {Pointer::operand, offsetof(P, out), 2}});
}

std::span<const RunKernel> scatter_cuda_kernels() {
  static constexpr RunKernel list[] = {{"scatter", load_scatter, resolved<scatter_cuda_launches>, run_launches},
                                       {"scatter_along", load_scatter_along, resolved<scatter_along_cuda_launches>, run_launches}};
  return list;
}

}  // namespace ingot::kernels
