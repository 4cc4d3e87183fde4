#include "kernels/matmul/matmul_map_cuda_run.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/error.h"
#include "kernels/index_map_run.h"
#include "kernels/matmul/matmul_map_cuda_args.h"
#include "kernels/numbers_cuda_run.h"

namespace ingot::kernels {

namespace {

using backend::TensorRef;
using Pointer = CudaLaunch::Pointer;
using P = MatmulMapCudaParameters;

void require(bool good, const char* what) {
  if (!good) fail(Code::format, "the operands of a matmul_map step do not fit: {}", what);
}

// Checks what the arguments and the operands say of each other.
void check(const MatmulMapCudaArgs& args, const backend::Call& call) {
  const int64_t m = call.sizes[0], n = call.sizes[1], k = call.sizes[2];
  const TensorRef &a = call.operands[0], &b = call.operands[1];
  require(a.dtype == args.type && b.dtype == args.type, "types");
  require(a.rank == args.map.rank && b.rank == 2 && b.dims[0] == k && b.dims[1] == n, "matrices");
  const int64_t along = args.b_along_k ? b.strides[0] : b.strides[1], apart = args.b_along_k ? b.strides[1] : b.strides[0];
  require(((args.b_along_k ? k : n) <= 1 || along == 1) && apart >= 0, "the right matrix");
  require(m >= 0 && n >= 0 && k >= 0 && n % 8 == 0 && m <= INT32_MAX && n <= INT32_MAX && k <= INT32_MAX, "sizes");
  for (size_t i = 0; i < args.operands.size(); ++i) {
    const TensorRef& t = call.operands[2 + i];
    require(t.dtype == args.operands[i].dtype && t.rank == 2 + args.operands[i].gathered, "the body's types");
    bool store = i + args.stores >= args.operands.size();
    for (int axis = 0; axis < 2; ++axis) require(t.dims[axis] == (axis == 0 ? m : n) || (!store && t.dims[axis] == 1), "the body's sizes");
  }
}

// The map as the kernel walks it, its extents of 1 left out. All that it counts by fits 32 bits.
void walk(const MatmulMapCudaArgs& args, const backend::Call& call, P& p) {
  const size_t indices = size_t{args.map.m_rank} + args.map.k_rank;
  const TensorRef& a = call.operands[0];
  auto sizes = call.sizes.subspan(3, indices + args.map.rank);
  for (size_t j = 0; j < args.map.rank; ++j) {
    const int64_t offset = sizes[indices + j];
    require(offset >= -INT32_MAX && offset <= INT32_MAX && a.dims[j] <= INT32_MAX, "the map's offsets");
  }
  for (size_t i = 0; i < indices; ++i) require(sizes[i] >= 0 && sizes[i] <= INT32_MAX, "extents");
  const IndexMap map = resolve_index_map("matmul_map", args.map.steps, a, sizes);
  if (map.axes > 2) fail(Code::unsupported, "a product reads beyond its operand on {} axes, which is not possible on a GPU", map.axes);
  // What is read lies inside, whatever its parts add up to on the way.
  p.base = static_cast<long>(map.start.offset);
  for (int g = 0; g < 2; ++g) {
    int64_t reach = g < map.axes ? map.start.along[g] : 0;
    for (size_t i = 0; g < map.axes && i < indices; ++i) reach += map.indices[i].along[g] * std::max<int64_t>(map.indices[i].extent - 1, 0);
    require(reach <= INT32_MAX, "the map's reach");
    p.origin[g] = g < map.axes ? static_cast<int>(map.start.along[g]) : 0;
    p.inside[g] = g < map.axes ? static_cast<int>(map.size[g]) : 1;
  }
  auto part = [&](size_t from, size_t to, int* extents, long* steps, int (*guarded)[3]) {
    std::fill(extents, extents + 3, 1);
    int at = 3;
    for (size_t i = to; i-- > from;) {
      const IndexMap::Index& index = map.indices[i];
      if (index.extent == 1) continue;
      if (--at < 0) fail(Code::unsupported, "a product through a map of more than three indices is not possible on a GPU");
      extents[at] = static_cast<int>(index.extent);
      steps[at] = static_cast<long>(index.step);
      for (int g = 0; g < map.axes; ++g) guarded[g][at] = static_cast<int>(index.along[g]);
    }
  };
  part(0, args.map.m_rank, p.m_extent, p.m_step, p.m_guard);
  part(args.map.m_rank, indices, p.k_extent, p.k_step, p.k_guard);
  auto times = [](const int* e) { return static_cast<int64_t>(e[0]) * e[1] * e[2]; };
  require(times(p.m_extent) == p.m && times(p.k_extent) == p.k, "the map's extents");
  const int64_t inner = divided_up(p.k_extent[2], 8) * 8;
  p.k = inner * p.k_extent[0] * p.k_extent[1];
  require(p.k <= INT32_MAX, "sizes");
  p.k_inner = static_cast<int>(std::max<int64_t>(inner, 8));
}

class Launches {
 public:
  Launches(const MatmulMapCudaArgs& args, const backend::Call& call, const CudaMachine& machine)
      : args_(args), machine_(machine), numbers_{call.operands.subspan(2), call.sizes.last(args.sizes)} {
    numbers_.check(args.known, "a matmul_map");
    p_.m = call.sizes[0];
    p_.n = call.sizes[1];
    p_.k = call.sizes[2];
    p_.b_step = call.operands[1].strides[args.b_along_k ? 1 : 0];
    walk(args, call, p_);
    // Sixteen bytes at once where every eight begins at a multiple of them.
    together_ = p_.b_step % 8 == 0 && p_.base % 8 == 0 && in_eights();
    for (int i = 0; i < 3; ++i) together_ = together_ && p_.m_step[i] % 8 == 0 && (i == 2 || p_.k_step[i] % 8 == 0);
    for (uint8_t k : args.together) {
      const TensorRef& x = numbers_.operands[k];
      together_ = together_ && (x.dims[0] == 1 || x.strides[0] % 8 == 0);
      aligned_.push_back(size_t{2} + k);
    }
  }

  CudaLaunches run() {
    CudaLaunches out = launches(together_);
    if (!together_) return out;
    out.aligned = aligned_;
    CudaLaunches any = launches(false);
    out.any = std::move(any.list);
    out.scratch = std::max(out.scratch, any.scratch);
    return out;
  }

 private:
  // The innermost index of K walks whole eights of neighbours, all of them inside A.
  bool in_eights() const { return p_.k_extent[2] == p_.k_inner && p_.k_step[2] == 1 && p_.k_guard[0][2] == 0 && p_.k_guard[1][2] == 0; }
  CudaLaunches launches(bool together) const {
    CudaLaunches list;
    P p = p_;
    std::vector<Pointer> own = {{Pointer::operand, offsetof(P, a), 0}, {Pointer::operand, offsetof(P, b), 1}};
    auto add = [&](const std::string& kernel, int64_t blocks, int threads, int shared) {
      std::vector<std::byte> parameters(sizeof p);
      std::memcpy(parameters.data(), &p, sizeof p);
      std::vector<Pointer> pointers = own;
      numbers_.append(parameters, pointers, args_.numbers, 2);
      list.add_bytes(fmt::format("{}_{}{}", args_.name, together ? "" : "any_", kernel), blocks, static_cast<uint32_t>(threads), std::move(parameters), std::move(pointers));
      list.list.back().shared = static_cast<uint32_t>(shared);
      list.list.back().overlaps = true;
    };
    p.splits = p.turns = 1;
    if (p.m == 0 || p.n == 0) return list;
    // K of one row is a single index.
    if (p.m == 1 && args_.b_along_k && in_eights() && p.k_extent[0] == 1 && p.k_extent[1] == 1) {
      add("row", std::min(p.n / 8, int64_t{matmul_map_row_blocks} * machine_.multiprocessors), matmul_map_row_threads, 2 * matmul_map_row_threads / 32 * 8 * 4);
      return list;
    }
    auto blocks_of = [&](const MatmulMapTile& t) { return divided_up(p.m, t.rows) * divided_up(p.n, t.columns); };
    // Large tiles read less, small ones spread over more multiprocessors and waste less of a narrow result; K is shared where even those are few.
    const int size = together && p.n > matmul_map_tiles[1].columns && blocks_of(matmul_map_tiles[0]) >= machine_.multiprocessors ? 0 : 1;
    const MatmulMapTile& tile = matmul_map_tiles[size];
    const int64_t turns = divided_up(p.k, matmul_map_depth), blocks = blocks_of(tile);
    constexpr int64_t least_turns = 2;
    const int64_t wanted = 2 * blocks > machine_.multiprocessors ? 1 : 2 * machine_.multiprocessors / blocks;
    const int64_t splits = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, turns / least_turns));
    p.turns = static_cast<int>(std::max<int64_t>(1, divided_up(turns, splits)));
    p.splits = static_cast<int>(std::max<int64_t>(1, divided_up(turns, p.turns)));
    if (p.splits > 1) own.push_back({Pointer::scratch, offsetof(P, parts), 0, list.reserve(4 * p.splits * p.m * p.n)});
    add(std::to_string(size), blocks * p.splits, tile.threads, 2 * matmul_map_stages * matmul_map_depth * (tile.rows + tile.columns));
    if (p.splits > 1) add("finish", divided_up(p.m * p.n / 8, matmul_map_finish_threads), matmul_map_finish_threads, 0);
    return list;
  }

  const MatmulMapCudaArgs& args_;
  const CudaMachine& machine_;
  CudaNumbers numbers_;
  P p_{};
  bool together_ = true;
  std::vector<size_t> aligned_ = {0, 1};
};

}  // namespace

std::shared_ptr<const void> load_matmul_map_cuda(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto args = std::make_shared<MatmulMapCudaArgs>(parse_matmul_map_cuda(constants));
  size_t wanted = 2 + args->operands.size(), numbers = size_t{3} + args->map.m_rank + args->map.k_rank + args->map.rank + args->sizes;
  if (operands != wanted || sizes != numbers) fail(Code::format, "a matmul_map step has {} operands and {} sizes, its arguments {} and {}", operands, sizes, wanted, numbers);
  return args;
}

CudaLaunches matmul_map_cuda_launches(const backend::Call& call, const CudaMachine& machine) {
  const auto& args = *static_cast<const MatmulMapCudaArgs*>(call.constants);
  check(args, call);
  return Launches(args, call, machine).run();
}

}  // namespace ingot::kernels
