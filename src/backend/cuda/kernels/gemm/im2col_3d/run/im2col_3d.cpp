// Kernel: name_volume.
#include <algorithm>

#include "backend/cuda/kernels/gemm/im2col_3d/run/im2col_3d_args.h"
#include "backend/cuda/kernels/gemm/im2col_3d/run/parameters.h"
#include "backend/cuda/kernels/gemm/run/implementation.h"
#include "backend/cuda/kernels/gemm/run/through_map.h"
#include "backend/cuda/kernels/gemm/run/tuning.h"

namespace ingot::kernels {

namespace {

std::shared_ptr<const void> parse(std::span<const std::byte> bytes, const GemmArgs& g) { return std::make_shared<Im2col3d>(parse_im2col_3d(bytes, g)); }

// nullopt if the kernel cannot read A.
std::optional<Im2col3dParameters> parameters_of(const GemmCall& call, const Im2col3d& s) {
  const GemmArgs& args = call.args;
  const TensorRef& a = call.call.operands[0];
  const size_t indices = size_t{args.map.m_rank} + args.map.k_rank;
  const auto sizes = call.call.sizes.subspan(3, indices + args.map.rank);
  const auto walk = im2col_3d_axes(args.map, sizes);
  if (!walk || walk->numbers.channels != s.channels || walk->numbers.last != s.last) return std::nullopt;
  constexpr int64_t limit = INT32_MAX / 4;
  auto extent = [&](int index) { return index < 0 ? int64_t{1} : sizes[static_cast<size_t>(index)]; };
  auto stride = [&](int axis) { return axis < 0 ? int64_t{0} : a.strides[axis]; };
  if ((walk->channel >= 0 && a.dims[walk->channel] < s.channels) || (walk->images >= 0 && a.dims[walk->images] < extent(walk->image))) return std::nullopt;
  Im2col3dParameters p{};
  p.size = call.size;
  p.matrices = call.matrices;
  p.matrices.base = 0;
  p.extent[0] = static_cast<int>(extent(walk->image));
  p.step[0] = stride(walk->images);
  p.channel_step = stride(walk->channel);
  for (size_t d = 0; d < 3; ++d) {
    const int axis = walk->axis[d];
    const int64_t places = extent(walk->place[d]), inside = a.dims[axis];
    if (walk->numbers.kernel[d] != s.kernel[d] || places > limit || inside > limit) return std::nullopt;
    p.extent[1 + d] = static_cast<int>(places);
    p.step[1 + d] = stride(axis);
    p.origin[d] = static_cast<int>(sizes[indices + static_cast<size_t>(axis)]);
    p.inside[d] = static_cast<int>(inside);
  }
  const bool vectors = p.channel_step == 1 && std::all_of(std::begin(p.step), std::end(p.step), [&](long step) { return step % s.each() == 0; });
  return s.narrow() || vectors ? std::optional(p) : std::nullopt;
}

std::optional<CudaLaunches> launches(const GemmCall& c, const void* own) {
  const auto& s = *static_cast<const Im2col3d*>(own);
  const auto p = c.others_aligned ? parameters_of(c, s) : std::nullopt;
  if (!p) return std::nullopt;
  GemmLaunches out(c);
  if (!c.is_empty()) {
    const int64_t places = int64_t{p->extent[0]} * divided_up(p->extent[1], s.deep) * divided_up(p->extent[2], s.down()) * divided_up(p->extent[3], s.across);
    out.add_persistent("volume", *p, s, places, divided_up(p->size.n, int64_t{16} * s.wide));
  }
  out.list.aligned = c.aligned(!s.narrow(), false);
  return with_any_address(std::move(out.list), c);
}

double cost(const GemmSizes& s) { return cost_of_work(gemm::tuning::im2col, s); }

}  // namespace

extern const GemmImplementation gemm_im2col_3d;
constexpr GemmImplementation gemm_im2col_3d{"gemm_im2col_3d", parse, launches, cost};

}  // namespace ingot::kernels
