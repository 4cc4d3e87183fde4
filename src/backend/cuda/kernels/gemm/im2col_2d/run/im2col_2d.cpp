// Kernels: name_image_0.., one for each layout of A.
#include <algorithm>

#include "backend/cuda/kernels/gemm/im2col_2d/run/im2col_2d_args.h"
#include "backend/cuda/kernels/gemm/im2col_2d/run/parameters.h"
#include "backend/cuda/kernels/gemm/run/implementation.h"
#include "backend/cuda/kernels/gemm/run/through_map.h"
#include "backend/cuda/kernels/gemm/run/tuning.h"
#include "base/error.h"

namespace ingot::kernels {

namespace {

using Layouts = std::vector<Im2col2d>;

std::shared_ptr<const void> parse(std::span<const std::byte> bytes, const GemmArgs& g) { return std::make_shared<Layouts>(parse_im2col_2d(bytes, g)); }

// The kernel that matches A's layout, and its parameters.
struct Found {
  size_t kernel = 0;
  Im2col2dParameters p;
};
std::optional<Found> find(const GemmCall& c, const Layouts& layouts) {
  const GemmArgs& args = c.args;
  const Call& call = c.call;
  Im2col2dParameters p{};
  p.size = c.size;
  p.matrices = c.matrices;
  const size_t indices = size_t{args.map.m_rank} + args.map.k_rank;
  const TensorRef& a = call.operands[0];
  const auto sizes = call.sizes.subspan(3, indices + args.map.rank);
  const auto walk = im2col_2d_axes(args.map, sizes);
  if (!walk) return std::nullopt;
  auto extent = [&](int index) { return sizes[static_cast<size_t>(index)]; };
  auto along = [&](int axis, int index) { return args.map.steps[static_cast<size_t>(axis) * indices + static_cast<size_t>(index)]; };
  // The map never leaves the other axes.
  for (int j = 0; j < a.rank; ++j) {
    int64_t last = 0;
    for (size_t i = 0; i < indices; ++i) last += along(j, static_cast<int>(i)) * std::max<int64_t>(sizes[i] - 1, 0);
    if (j != walk->h && j != walk->w && last >= a.dims[j]) return std::nullopt;
  }
  const Im2col2d& n = walk->numbers;
  for (size_t k = 0; k < layouts.size(); ++k) {
    const Im2col2d& s = layouts[k];
    bool same = s.channels == n.channels && (s.last == 0 || (walk->c >= 0 && a.strides[walk->c] == 1)) && a.strides[walk->w] == s.inner();
    for (int d = 0; d < 2; ++d) same = same && s.kernel[d] == n.kernel[d] && s.stride[d] == n.stride[d] && s.pad[d] == n.pad[d];
    const int64_t line = a.dims[walk->w] * s.inner(), y = extent(walk->y), x = extent(walk->x);
    constexpr int64_t limit = INT32_MAX / 2;
    if (!same || line > limit || p.matrices.b_step > limit / std::max<int64_t>(1, args.b_along_k ? p.size.n : p.size.k) || (y + s.down) * s.stride[0] > limit ||
        (x + s.across) * s.step() > limit)
      continue;
    int64_t image = 0;
    for (int j = 0; walk->image >= 0 && j < a.rank; ++j) image += along(j, walk->image) * a.strides[j];
    p.images = walk->image < 0 ? 1 : static_cast<int>(extent(walk->image));
    p.rows = static_cast<int>(y);
    p.columns = static_cast<int>(x);
    p.image_step = image;
    p.channel_step = walk->c < 0 || s.last != 0 ? 0 : a.strides[walk->c];
    p.line_step = a.strides[walk->h];
    p.lines = static_cast<int>(a.dims[walk->h]);
    p.line = static_cast<int>(line);
    p.whole = line % s.each() == 0 && image % s.each() == 0 && p.channel_step % s.each() == 0 && p.line_step % s.each() == 0;
    return Found{k, p};
  }
  return std::nullopt;
}

// Where A can be read in whole vectors, other implementations are faster.
std::optional<CudaLaunches> launches(const GemmCall& c, const void* own) {
  const auto& layouts = *static_cast<const Layouts*>(own);
  const auto found = c.others_aligned && !c.a_aligned ? find(c, layouts) : std::nullopt;
  if (!found) return std::nullopt;
  GemmLaunches out(c);
  if (!c.is_empty()) {
    const Im2col2d& s = layouts[found->kernel];
    const Im2col2dParameters& p = found->p;
    out.add_persistent(fmt::format("image_{}", found->kernel), p, s, int64_t{p.images} * divided_up(p.rows, s.down) * divided_up(p.columns, s.across),
                       divided_up(p.size.n, int64_t{32} * s.wide));
  }
  out.list.aligned = c.aligned(found->p.whole != 0, false);
  return with_any_address(std::move(out.list), c);
}

double cost(const GemmSizes& s) { return cost_of_work(gemm::tuning::im2col, s); }

}  // namespace

extern const GemmImplementation gemm_im2col_2d;
constexpr GemmImplementation gemm_im2col_2d{"gemm_im2col_2d", parse, launches, cost};

}  // namespace ingot::kernels
