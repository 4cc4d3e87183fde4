#include "kernels/matmul/matmul_map_cuda_run.h"

#include <algorithm>
#include <cstddef>

#include "base/error.h"
#include "kernels/matmul/matmul_map_cuda_args.h"

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
  const TensorRef &a = call.operands[0], &b = call.operands[1], &d = call.operands.back();
  require(d.dtype == ir::DType::f16 || d.dtype == ir::DType::bf16, "types");
  for (const TensorRef& t : call.operands) require(t.dtype == d.dtype, "types");
  auto rows = [&](const TensorRef& t, int64_t count, int64_t columns) {
    return t.rank == 2 && t.dims[0] == count && t.dims[1] == columns && (columns <= 1 || t.strides[1] == 1) && t.strides[0] >= 0;
  };
  require(rows(d, m, n) && rows(b, k, n) && a.rank == args.map.rank, "matrices");
  require(m >= 0 && n >= 0 && k >= 0 && n % 8 == 0 && m <= INT32_MAX && n <= INT32_MAX && k <= INT32_MAX, "sizes");
  if (args.product.residual != 0) require(rows(call.operands[args.product.residual], m, n), "the residual");
  if (args.product.bias != 0) {
    const TensorRef& bias = call.operands[args.product.bias];
    require(bias.rank == 2 && bias.dims[1] == n && bias.strides[1] == 1 && (bias.dims[0] == 1 || bias.strides[0] == 0), "the bias");
  }
}

// The map as the kernel walks it, its extents of 1 left out.
class Walk {
 public:
  Walk(const MatmulMapCudaArgs& args, const backend::Call& call, P& p) : map_(args.map), a_(call.operands[0]), extents_(call.sizes.subspan(3)), p_(p) {
    const size_t indices = size_t{map_.m_rank} + map_.k_rank;
    offsets_ = call.sizes.subspan(3 + indices);
    std::vector<size_t> guards;
    for (size_t j = 0; j < map_.rank; ++j) {
      // Of an axis that the map cannot leave, only where it goes matters.
      int64_t least = offsets_[j], most = least;
      require(least >= -INT32_MAX && least <= INT32_MAX && a_.dims[j] <= INT32_MAX, "the map's offsets");
      for (size_t i = 0; i < indices; ++i) {
        require(extents_[i] >= 0 && extents_[i] <= INT32_MAX, "extents");
        most += step(j, i) * std::max<int64_t>(extents_[i] - 1, 0);
        require(most <= INT32_MAX, "the map's reach");
      }
      if (least < 0 || most >= a_.dims[j]) guards.push_back(j);
      p_.base = wrapped(p_.base, a_.strides[j], least);
    }
    if (guards.size() > 2) fail(Code::unsupported, "a product reads beyond its operand on {} axes, which is not possible on a GPU", guards.size());
    for (size_t g = 0; g < 2; ++g) {
      p_.origin[g] = g < guards.size() ? static_cast<int>(offsets_[guards[g]]) : 0;
      p_.inside[g] = g < guards.size() ? static_cast<int>(a_.dims[guards[g]]) : 1;
    }
    part(0, map_.m_rank, guards, p_.m_extent, p_.m_step, p_.m_guard);
    part(map_.m_rank, indices, guards, p_.k_extent, p_.k_step, p_.k_guard);
    auto times = [](const int* e) { return static_cast<int64_t>(e[0]) * e[1] * e[2]; };
    require(times(p_.m_extent) == p_.m && times(p_.k_extent) == p_.k, "the map's extents");
    require(p_.k == 0 || (p_.k_extent[2] % 8 == 0 && p_.k_step[2] == 1 && p_.k_guard[0][2] == 0 && p_.k_guard[1][2] == 0), "neighbours");
  }

 private:
  // What is read lies inside, whatever its parts add up to on the way.
  static long wrapped(long sum, int64_t stride, int64_t step) { return static_cast<long>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(stride) * static_cast<uint64_t>(step)); }
  int64_t step(size_t axis, size_t index) const { return map_.steps[axis * (map_.m_rank + map_.k_rank) + index]; }
  void part(size_t from, size_t to, const std::vector<size_t>& guards, int* extents, long* steps, int (*guarded)[3]) {
    std::fill(extents, extents + 3, 1);
    int at = 3;
    for (size_t i = to; i-- > from;) {
      if (extents_[i] == 1) continue;
      if (--at < 0) fail(Code::unsupported, "a product through a map of more than three indices is not possible on a GPU");
      extents[at] = static_cast<int>(extents_[i]);
      for (size_t j = 0; j < map_.rank; ++j) steps[at] = wrapped(steps[at], a_.strides[j], step(j, i));
      for (size_t g = 0; g < guards.size(); ++g) guarded[g][at] = static_cast<int>(step(guards[g], i));
    }
  }

  const MatmulMap& map_;
  const TensorRef& a_;
  std::span<const int64_t> extents_, offsets_;
  P& p_;
};

}  // namespace

std::shared_ptr<const void> load_matmul_map_cuda(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto args = std::make_shared<MatmulMapCudaArgs>(parse_matmul_map_cuda(constants));
  size_t wanted = size_t{3} + (args->product.bias != 0) + (args->product.residual != 0), numbers = size_t{3} + args->map.m_rank + args->map.k_rank + args->map.rank;
  if (operands != wanted || sizes != numbers) fail(Code::format, "a matmul_map step has {} operands and {} sizes, its arguments {} and {}", operands, sizes, wanted, numbers);
  return args;
}

CudaLaunches matmul_map_cuda_launches(const backend::Call& call, const CudaMachine& machine) {
  const auto& args = *static_cast<const MatmulMapCudaArgs*>(call.constants);
  check(args, call);
  const TensorRef &b = call.operands[1], &d = call.operands.back();
  P p{};
  p.m = call.sizes[0];
  p.n = call.sizes[1];
  p.k = call.sizes[2];
  p.b_row = b.strides[0];
  p.out_row = d.strides[0];
  p.activation = args.product.activation;
  p.alpha = static_cast<float>(args.product.alpha);
  Walk(args, call, p);
  std::vector<Pointer> pointers = {
      {Pointer::operand, offsetof(P, a), 0}, {Pointer::operand, offsetof(P, b), 1}, {Pointer::operand, offsetof(P, out), call.operands.size() - 1}};
  if (args.product.bias != 0) pointers.push_back({Pointer::operand, offsetof(P, bias), args.product.bias});
  if (args.product.residual != 0) {
    pointers.push_back({Pointer::operand, offsetof(P, residual), args.product.residual});
    p.residual_row = call.operands[args.product.residual].strides[0];
  }
  CudaLaunches list;
  if (p.m == 0 || p.n == 0) return list;
  auto blocks_of = [&](const MatmulMapTile& t) { return divided_up(p.m, t.rows) * divided_up(p.n, t.columns); };
  // Large tiles read less, small ones spread over more multiprocessors and waste less of a narrow result; K is shared where even those are few.
  const int size = p.n > matmul_map_tiles[1].columns && blocks_of(matmul_map_tiles[0]) >= machine.multiprocessors ? 0 : 1;
  const MatmulMapTile& tile = matmul_map_tiles[size];
  const int64_t turns = divided_up(p.k, matmul_map_depth), blocks = blocks_of(tile);
  constexpr int64_t least_turns = 4;
  int64_t splits = std::clamp<int64_t>(2 * machine.multiprocessors / blocks, 1, std::max<int64_t>(1, turns / least_turns));
  p.turns = static_cast<int>(std::max<int64_t>(1, divided_up(turns, splits)));
  p.splits = static_cast<int>(std::max<int64_t>(1, divided_up(turns, p.turns)));
  if (p.splits > 1) pointers.push_back({Pointer::scratch, offsetof(P, parts), 0, list.reserve(4 * p.splits * p.m * p.n)});
  // Sixteen bytes at once where every eight of A and B begins at a multiple of them.
  bool together = b.strides[0] % 8 == 0 && p.base % 8 == 0;
  for (int i = 0; i < 3; ++i) together = together && p.m_step[i] % 8 == 0 && (i == 2 || p.k_step[i] % 8 == 0);
  std::string name = matmul_map_cuda_name(d.dtype);
  auto shared = static_cast<uint32_t>(2 * matmul_map_stages * matmul_map_depth * (tile.rows + tile.columns));
  list.add(fmt::format("{}_{}", name, size + (together ? 0 : 2)), blocks * p.splits, static_cast<uint32_t>(tile.threads), p, pointers);
  list.list.back().shared = shared;
  if (together) {
    list.list.back().aligned = {0, 1};
    list.list.back().otherwise = fmt::format("{}_{}", name, size + 2);
  }
  if (p.splits > 1) list.add(name + "_finish", divided_up(p.m * p.n / 2, matmul_map_finish_threads), matmul_map_finish_threads, p, pointers);
  return list;
}

}  // namespace ingot::kernels
