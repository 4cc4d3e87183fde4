#include "backend/cuda/kernels/reduce_segments/run/reduce_segments_launches.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "backend/cuda/kernels/reduce_segments/run/reduce_segments_cuda_args.h"
#include "backend/cuda/kernels/reduce_segments/run/tuning.h"
#include "backend/cuda/run/launch.h"

namespace ingot::kernels {

namespace {

using P = SegmentsCudaParameters;
using Pointer = CudaLaunch::Pointer;

using namespace reduce_segments_tuning;

// With loads of so many elements.
void add_launches(CudaLaunches& list, P p, const std::string& name, int64_t vector) {
  const int64_t vectors = divided_up(p.elements, vector);
  p.group = static_cast<int>(std::min<int64_t>(max_group, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(vectors)))));
  p.groups = static_cast<int>(divided_up(vectors, p.group));
  std::vector<Pointer> pointers{{Pointer::status, offsetof(P, status)},
                                {Pointer::operand, offsetof(P, x), 0},
                                {Pointer::operand, offsetof(P, order), 1},
                                {Pointer::operand, offsetof(P, ends), 2},
                                {Pointer::operand, offsetof(P, out), 3}};
  const int64_t parts = divided_up(p.count, part_rows);
  if (parts > 1) pointers.push_back({Pointer::scratch, offsetof(P, parts), 0, list.reserve(parts * 2 * p.elements * static_cast<int64_t>(sizeof(double)))});
  auto add = [&](std::string_view suffix, int64_t groups) {
    list.add(name + "_" + std::to_string(vector) + std::string(suffix), divided_up(groups * p.groups * p.group, threads), threads, p, pointers);
  };
  add("", p.segments);
  if (parts > 1) {
    add("_parts", parts);
    add("_join", p.segments);
  }
  list.overlap();
}

}  // namespace

CudaLaunches reduce_segments_cuda_launches(const Call& call, const CudaMachine&) {
  check_reduce_segments(call);
  const TensorRef &x = call.operands[0], &order = call.operands[1], &ends = call.operands[2], &out = call.operands[3];
  JoinedAxes elements(2);
  for (int d = 1; d < x.rank; ++d) elements.add(x.dims[d], {x.strides[d], out.strides[d]});
  P p{};
  p.rows = x.dims[0];
  p.count = order.dims[0];
  p.segments = ends.dims[0];
  p.elements = elements.points;
  p.x_row = x.strides[0];
  p.order_step = order.strides[0];
  p.ends_step = ends.strides[0];
  p.out_row = out.strides[0];
  p.element_axes = elements.get<2>();
  CudaLaunches list;
  if (p.segments == 0 || p.elements == 0) return list;
  const std::string name = reduce_segments_cuda_name(static_cast<const ReduceSegmentsArgs*>(call.constants)->kind, x.dtype);
  const int64_t vector = 16 / static_cast<int64_t>(ir::size_of(x.dtype));
  const bool are_neighbours = elements.dims.size() == 1 && elements.strides[0][0] == 1 && elements.strides[1][0] == 1;
  if (!are_neighbours || p.elements % vector != 0 || p.x_row % vector != 0 || p.out_row % vector != 0) {
    add_launches(list, p, name, 1);
    return list;
  }
  CudaLaunches any;
  add_launches(any, p, name, 1);
  add_launches(list, p, name, vector);
  list.aligned = {0, 3};
  list.any = std::move(any.list);
  list.scratch = std::max(list.scratch, any.scratch);
  return list;
}

std::span<const RunKernel> reduce_segments_cuda_kernels() {
  static constexpr RunKernel list[] = {{"reduce_segments", load_reduce_segments, resolved<reduce_segments_cuda_launches>, run_launches}};
  return list;
}

}  // namespace ingot::kernels
