// Kernels: name_packed_1 and name_packed_4 for tiles of eight rows of a block, with any_ in front of them for operands that are not aligned; name_decode, and then those of another implementation.
#include <algorithm>

#include "backend/cuda/kernels/gemm/packed/run/packed_args.h"
#include "backend/cuda/kernels/gemm/packed/run/parameters.h"
#include "backend/cuda/kernels/gemm/packed/run/tuning.h"
#include "backend/cuda/kernels/gemm/run/implementation.h"
#include "backend/cuda/kernels/gemm/run/through_map.h"
#include "backend/cuda/kernels/gemm/run/tuning.h"
#include "backend/cuda/run/hardware.h"
#include "base/error.h"

namespace ingot::kernels {

namespace {

using namespace gemm::packed_tuning;
using Pointer = CudaLaunch::Pointer;

// The arguments, with those of the implementation for many rows.
struct Loaded {
  PackedB b;
  GemmArgs decoded = {};  // of a step whose B is a matrix
  const GemmImplementation* many = nullptr;
  std::shared_ptr<const void> args = {};
};

std::shared_ptr<const void> parse(std::span<const std::byte> bytes, const GemmArgs& g) {
  const PackedArgs own = parse_packed_args(bytes);
  require_gemm_args(g.b_type == ir::DType::i8 && g.b_along_k && g.parts_of_b == 1, "packed numbers");
  auto out = std::make_shared<Loaded>(Loaded{own.b});
  if (own.many.kernel.empty()) return out;
  out->decoded = g;
  out->decoded.b_type = g.type;
  const auto all = gemm_implementations();
  const auto found = std::find_if(all.begin(), all.end(), [&](const GemmImplementation* x) { return x->kernel == own.many.kernel; });
  require_gemm_args(found != all.end() && !(*found)->of_packed && !(*found)->of_experts && g.type != ir::DType::f32, "many rows");
  out->many = *found;
  out->args = out->many->parse(own.many.args, out->decoded);
  return out;
}

int64_t bytes_of(const PackedB& b, int64_t k, int64_t n) {
  const int64_t dims[] = {k, n};
  return storage_bytes(b.encoding(), dims);
}

// How a block computes its rows.
struct Shape {
  int tiles;
  int64_t rows, shared;
};
Shape shape_of(const GemmCall& c) {
  const int64_t parts = c.args.type == ir::DType::f32 ? 3 : 1, pitch = divided_up(c.size.k, packed_depth) * packed_depth + 32, halves = c.args.gated ? 2 : 1;
  const int64_t room = c.machine.tiles ? backend::cuda::hardware::hopper_shared_of_block : backend::cuda::hardware::shared_of_block;
  auto shared_of = [&](int tiles, int64_t rows) {
    const int64_t sums = 2 * halves * (gemv_threads / backend::cuda::hardware::warp) * tiles * rows_of_tile * packed_columns * static_cast<int64_t>(sizeof(float));
    return sums + rows * parts * pitch * 2;
  };
  auto rows_of = [&](int tiles) {
    int64_t rows = std::min<int64_t>(c.size.m, tiles * rows_of_tile / parts);
    while (rows > 1 && shared_of(tiles, rows) > room) --rows;
    return divided_up(c.size.m, divided_up(c.size.m, rows));  // the same in all blocks
  };
  const int tiles = rows_of(more_tiles) * parts > rows_of_tile ? more_tiles : few_tiles;
  const int64_t rows = rows_of(tiles);
  return {tiles, rows, shared_of(tiles, rows)};
}

CudaLaunches in_flight(const GemmCall& c, bool vectors) {
  GemmLaunches out(c, vectors ? "" : "any_");
  if (c.is_empty()) return std::move(out.list);
  const Shape shape = shape_of(c);
  PackedParameters p{c.size, c.matrices, {}, {}, static_cast<int>(shape.rows), static_cast<int>(divided_up(c.size.m, shape.rows)), static_cast<int>(divided_up(c.size.k, packed_depth))};
  std::copy(std::begin(c.walk.m_step), std::end(c.walk.m_step), p.m_step);
  std::copy(std::begin(c.walk.m_extent), std::end(c.walk.m_extent), p.m_extent);
  const int64_t resident = 2 * shape.shared <= backend::cuda::hardware::hopper_shared_of_block ? blocks_of_multiprocessor : 1;
  const int64_t blocks = std::min(divided_up(c.size.n, packed_columns), std::max<int64_t>(1, resident * c.machine.multiprocessors / p.row_blocks));
  out.add(fmt::format("packed_{}", shape.tiles), p, blocks * p.row_blocks, gemv_threads, static_cast<int>(shape.shared));
  return std::move(out.list);
}

// Decodes B to scratch, and multiplies by it there.
std::optional<CudaLaunches> after_decoding(const GemmCall& c, const Loaded& own) {
  const int64_t k = c.call.sizes[2], n = (c.args.gated ? 2 : 1) * c.size.n, dims[] = {k, n}, strides[] = {1, k};
  const size_t left = c.args.left();
  std::vector<TensorRef> operands(c.call.operands.begin(), c.call.operands.end());
  operands[left] = {nullptr, c.args.type, 2, dims, strides};
  Call call = c.call;
  call.operands = operands;
  const GemmCall decoded(own.decoded, call, c.machine);
  auto made = own.many->launches(decoded, own.args.get());
  if (!made) return std::nullopt;
  const size_t at = made->reserve(k * n * static_cast<int64_t>(ir::size_of(c.args.type)));
  for (CudaLaunch& l : made->list) {
    for (Pointer& p : l.pointers) {
      if (p.what == Pointer::operand && p.index == left) p = {Pointer::scratch, p.at, 0, at};
    }
    for (CudaTiles& t : l.tiles) {
      if (t.index == left) t.in_scratch = true, t.offset += static_cast<int64_t>(at);
    }
  }
  GemmLaunches first(c);
  const int64_t chunks = divided_up(k, packed_depth), warps = gemv_threads / backend::cuda::hardware::warp;
  first.add("decode", PackedDecodeParameters{c.matrices, 0, n, k, static_cast<int>(chunks)}, divided_up(divided_up(n, packed_columns) * chunks, warps), gemv_threads, 0,
            [&](std::vector<std::byte>&, std::vector<Pointer>& pointers) { pointers.push_back({Pointer::scratch, offsetof(PackedDecodeParameters, out), 0, at}); });
  made->list.insert(made->list.begin(), std::move(first.list.list[0]));
  return made;
}

std::optional<CudaLaunches> launches(const GemmCall& c, const void* args) {
  const auto& own = *static_cast<const Loaded*>(args);
  require_gemm_args(c.call.operands[c.args.left()].dims[0] == bytes_of(own.b, c.call.sizes[2], (c.args.gated ? 2 : 1) * c.size.n), "packed bytes");
  if (!c.has_one_k() || (c.args.gated && c.size.n % packed_columns != 0)) return std::nullopt;
  CudaLaunches any = in_flight(c, false);
  const bool vectors = (c.args.has_prologue() || c.a_aligned) && c.others_aligned;
  if (vectors && own.many != nullptr && c.size.m > max_rows_in_flight) {
    if (auto made = after_decoding(c, own)) return with_any_address(std::move(*made), std::move(any));
  }
  if (!vectors) return any;
  CudaLaunches out = in_flight(c, true);
  out.aligned = c.aligned(!c.args.has_prologue(), true);
  return with_any_address(std::move(out), std::move(any));
}

double cost(const GemmSizes& s) { return cost_of_work(s.m <= max_rows_in_flight ? 0 : 1, s); }

}  // namespace

extern const GemmImplementation gemm_packed;
constexpr GemmImplementation gemm_packed{.kernel = "gemm_packed", .parse = parse, .launches = launches, .cost = cost, .of_packed = true};

}  // namespace ingot::kernels
