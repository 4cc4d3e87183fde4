#include "backend/cuda/kernels/order_segments/run/order_segments_launches.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "backend/cuda/kernels/order_segments/run/order_segments_cuda_args.h"
#include "backend/cuda/kernels/order_segments/run/tuning.h"
#include "backend/cuda/run/launch.h"
#include "base/error.h"
#include "kernels/order_segments/run/order_segments_args.h"

namespace ingot::kernels {

CudaLaunches order_segments_cuda_launches(const Call& call, const CudaMachine&) {
  using P = OrderSegmentsParameters;
  using Pointer = CudaLaunch::Pointer;
  using namespace order_segments_tuning;
  check_order_segments(call);
  const TensorRef &index = call.operands[0], &order = call.operands[1], &ends = call.operands[2];
  P p{};
  p.count = index.dims[0];
  p.segments = ends.dims[0];
  p.index_step = index.strides[0];
  p.order_step = order.strides[0];
  p.ends_step = ends.strides[0];
  p.wrap = static_cast<const OrderSegmentsArgs*>(call.constants)->wrap;
  if (p.count > int64_t{UINT32_MAX} || p.segments >= int64_t{INT32_MAX})
    fail(Code::unsupported, "an order of {} places in {} segments is too large for a GPU", p.count, p.segments);
  std::vector<Pointer> pointers{
      {Pointer::status, offsetof(P, status)}, {Pointer::operand, offsetof(P, index), 0}, {Pointer::operand, offsetof(P, order), 1}, {Pointer::operand, offsetof(P, ends), 2}};
  CudaLaunches list;
  auto add = [&](const char* kernel, int64_t blocks) { list.add(kernel, blocks, threads, p, pointers); };
  if (p.count <= max_at_once && p.segments <= blocks_at_once * keys) {
    p.of_block = std::max<int64_t>(1, divided_up(p.segments, blocks_at_once));
    add(order_at_once_cuda_name, divided_up(p.segments, p.of_block));
    list.overlap();
    return list;
  }
  p.bucket_bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(p.segments - 1, 0)) / keys));
  p.buckets = divided_up(p.segments, int64_t{1} << p.bucket_bits);
  p.tile = std::max(min_tile, divided_up(divided_up(p.count, max_tiles), threads) * threads);
  p.tiles = divided_up(p.count, p.tile);
  auto reserve = [&](size_t at, int64_t numbers) { pointers.push_back({Pointer::scratch, at, 0, list.reserve(numbers * int64_t{sizeof(uint32_t)})}); };
  reserve(offsetof(P, counts), p.tiles * p.buckets);
  reserve(offsetof(P, bucket_ends), p.buckets);
  reserve(offsetof(P, places), p.count);
  reserve(offsetof(P, segments_of), p.count);
  add(count_buckets_cuda_name, p.tiles);
  add(split_in_buckets_cuda_name, p.tiles);
  add(order_buckets_cuda_name, p.buckets);
  list.overlap();
  return list;
}

std::span<const RunKernel> order_segments_cuda_kernels() {
  static constexpr RunKernel list[] = {{"order_segments", load_order_segments, resolved<order_segments_cuda_launches>, run_launches}};
  return list;
}

}  // namespace ingot::kernels
