#include "backend/cuda/kernels/reduce_segments/run/reduce_segments_launches.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "backend/cuda/kernels/reduce_segments/run/reduce_segments_cuda_args.h"
#include "backend/cuda/kernels/reduce_segments/run/tuning.h"
#include "backend/cuda/run/launch.h"
#include "base/error.h"

namespace ingot::kernels {

namespace {

using P = SegmentsCudaParameters;
using Args = ReduceSegmentsArgs;
using Pointer = CudaLaunch::Pointer;

using namespace reduce_segments_tuning;

// With loads of so many elements. `one`: these have one weight.
void add_launches(CudaLaunches& list, P p, const Args& args, const std::string& name, int64_t vector, bool one) {
  const int64_t vectors = divided_up(p.elements, vector);
  p.group = static_cast<int>(std::min<int64_t>(max_group, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(vectors)))));
  p.groups = static_cast<int>(divided_up(vectors, p.group));
  std::vector<Pointer> pointers{{Pointer::status, offsetof(P, status)},
                                {Pointer::operand, offsetof(P, x), Args::x},
                                {Pointer::operand, offsetof(P, order), Args::order},
                                {Pointer::operand, offsetof(P, ends), Args::ends},
                                {Pointer::operand, offsetof(P, out), args.out()}};
  if (args.weighted) {
    pointers.push_back({Pointer::operand, offsetof(P, weights), Args::weights});
    pointers.push_back({Pointer::operand, offsetof(P, weight_order), Args::weight_order});
  }
  if (args.based) pointers.push_back({Pointer::operand, offsetof(P, base), args.base()});
  const int64_t parts = divided_up(p.count, part_rows);
  p.part_count = parts > 1 ? parts : 0;
  if (parts > 1) pointers.push_back({Pointer::scratch, offsetof(P, parts), 0, list.reserve(parts * 2 * p.elements * static_cast<int64_t>(sizeof(double)))});
  auto add = [&](std::string_view suffix, int64_t groups) {
    list.add(name + "_" + std::to_string(vector) + std::string(suffix), divided_up(groups * p.groups * p.group, threads), threads, p, pointers);
  };
  add(one ? "_one" : "", p.part_count + p.segments);
  if (parts > 1) add("_join", p.segments);
  list.overlap();
}

// True if the elements of rows are neighbours, and each row begins at a multiple of a vector.
bool are_vectors(const JoinedAxes& elements, size_t walk, int64_t row, int64_t vector) { return elements.dims.size() == 1 && elements.strides[walk][0] == 1 && row % vector == 0; }

}  // namespace

CudaLaunches reduce_segments_cuda_launches(const Call& call, const CudaMachine&) {
  check_reduce_segments(call);
  const auto& args = *static_cast<const Args*>(call.constants);
  const TensorRef &x = call.operands[Args::x], &order = call.operands[Args::order], &ends = call.operands[Args::ends], &out = call.operands[args.out()];
  const TensorRef& base = call.operands[args.based ? args.base() : args.out()];
  JoinedAxes elements(3), weights(1);
  for (int d = 1; d < x.rank; ++d) elements.add(x.dims[d], {x.strides[d], out.strides[d], base.strides[d]});
  P p{};
  p.rows = x.dims[0];
  p.count = order.dims[0];
  p.segments = ends.dims[0];
  p.elements = elements.points;
  p.x_row = x.strides[0];
  p.order_step = order.strides[0];
  p.ends_step = ends.strides[0];
  p.out_row = out.strides[0];
  p.base_row = base.strides[0];
  p.element_axes = elements.get<3>();
  if (args.weighted) {
    const TensorRef &w = call.operands[Args::weights], &places = call.operands[Args::weight_order];
    for (int d = 1; d < w.rank; ++d) weights.add(w.dims[d], {w.strides[d]});
    p.weight_rows = w.dims[0];
    p.weight_row = w.strides[0];
    p.weight_order_step = places.strides[0];
    p.weight_axes = weights.get<1>();
  }
  CudaLaunches list;
  if (p.segments == 0 || p.elements == 0) return list;
  if (std::max(p.rows, p.weight_rows) >= int64_t{UINT32_MAX}) fail(Code::unsupported, "segments of {} rows are too many for a GPU", std::max(p.rows, p.weight_rows));
  const std::string name = reduce_segments_cuda_name(args, x.dtype);
  const int64_t vector = 16 / static_cast<int64_t>(ir::size_of(x.dtype));
  bool fits = p.elements % vector == 0 && are_vectors(elements, 0, p.x_row, vector) && are_vectors(elements, 1, p.out_row, vector) && are_vectors(elements, 2, p.base_row, vector);
  bool one = false;
  if (fits && args.weighted) {
    one = weights.dims.empty() || (weights.strides[0].back() == 0 && weights.dims.back() % vector == 0);
    fits = one || are_vectors(weights, 0, p.weight_row, vector);
  }
  if (!fits) {
    add_launches(list, p, args, name, 1, false);
    return list;
  }
  CudaLaunches any;
  add_launches(any, p, args, name, 1, false);
  add_launches(list, p, args, name, vector, one);
  list.aligned = {Args::x, args.out()};
  if (args.based) list.aligned.push_back(args.base());
  if (args.weighted && !one) list.aligned.push_back(Args::weights);
  list.any = std::move(any.list);
  list.scratch = std::max(list.scratch, any.scratch);
  return list;
}

std::span<const RunKernel> reduce_segments_cuda_kernels() {
  static constexpr RunKernel list[] = {{"reduce_segments", load_reduce_segments, resolved<reduce_segments_cuda_launches>, run_launches}};
  return list;
}

}  // namespace ingot::kernels
