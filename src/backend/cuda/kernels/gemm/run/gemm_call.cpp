#include "backend/cuda/kernels/gemm/run/gemm_call.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "kernels/run/index_map.h"

namespace ingot::kernels {

namespace {

void require(bool good, const char* what) {
  if (!good) fail(Code::format, "the operands of a GEMM step do not fit: {}", what);
}

bool is_packed(const GemmArgs& args, const Call& call) { return call.operands[args.left()].rank == 1; }

// Checks that the constants and the operands agree.
void check(const GemmArgs& args, const Call& call, size_t first) {
  const int64_t m = call.sizes[0], n = call.sizes[1], k = call.sizes[2];
  const TensorRef &a = call.operands[0], &b = call.operands[args.left()];
  require(args.has_prologue() || a.dtype == args.type, "types");
  const bool packed = is_packed(args, call);
  require(!packed || (b.dtype == ir::DType::i8 && args.b_type == b.dtype && args.parts_of_b == 1 && args.b_along_k && first == args.b_end()), "the packed matrix");
  require(packed || args.b_type == args.type || args.type != ir::DType::f32, "types");
  int64_t columns = packed ? (args.gated ? 2 : 1) * n : 0;
  const int last = args.row_rank;  // the axis of columns
  const int of_experts = first > args.b_end() ? 1 : 0;  // an axis in front of B's others
  if (of_experts == 1) {
    const TensorRef& ends = call.operands[args.b_end()];
    require((ends.dtype == ir::DType::i32 || ends.dtype == ir::DType::i64) && ends.rank == 1 && ends.dims[0] == b.dims[0] && (ends.dims[0] <= 1 || ends.strides[0] == 1),
            "the ends of rows");
  }
  for (size_t i = args.left(); !packed && i < args.b_end(); ++i) {
    const TensorRef& part = call.operands[i];
    require(part.dtype == args.b_type && part.rank == last + 1 + of_experts && part.dims[last - 1 + of_experts] == k &&
                (args.parts_of_b == 1 || (part.dims[1] % 8 == 0 && part.strides[0] == b.strides[0] && part.strides[1] == b.strides[1])),
            "the right matrices");
    for (int axis = 0; axis < last - 1; ++axis) require(part.dims[axis] == 1 || part.strides[axis] == 0, "the right matrices");
    columns += part.dims[last + of_experts];
  }
  require((args.has_prologue() || a.rank == args.map.rank) && columns == (args.gated ? 2 : 1) * n, "matrices");
  require(!args.has_prologue() || k == args.row, "the row");
  for (size_t i = 0; i < args.sources.size(); ++i) {
    const TensorRef& t = call.operands[i];
    const GemmArgs::Source& o = args.sources[i];
    require(t.dtype == o.dtype && static_cast<size_t>(t.rank) == o.dims.size(), "the operands of the prologue");
    for (size_t d = 0; d < o.dims.size(); ++d) require(t.dims[d] == o.dims[d] && (t.dims[d] <= 1 || t.strides[d] == o.strides[d]), "the operands of the prologue");
  }
  if (!packed) {
    const int64_t along = b.strides[of_experts + (args.b_along_k ? last - 1 : last)], across = b.strides[of_experts + (args.b_along_k ? last : last - 1)];
    require(((args.b_along_k ? k : n) <= 1 || along == 1) && across >= 0, "the right matrix");
  }
  require(m >= 0 && n >= 0 && k >= 0 && n % 8 == 0 && m <= INT32_MAX && n <= INT32_MAX && k <= INT32_MAX, "sizes");
  const TensorRef& result = call.operands.back();
  int64_t rows = 1;
  for (int axis = 0; axis < last && axis < result.rank; ++axis) rows *= result.dims[axis];
  require(rows == m, "the body's rows");
  for (size_t i = 0; i < args.operands.size(); ++i) {
    const TensorRef& t = call.operands[first + i];
    require(t.dtype == args.operands[i].dtype && t.rank == last + 1 + args.operands[i].gathered, "the body's types");
    bool store = i + args.stores >= args.operands.size();
    const bool merged = std::find(args.merged.begin(), args.merged.end(), i) != args.merged.end();
    int64_t step = -1;  // to what the next axis's stride must be; the stride of one row may be anything
    for (int axis = last - 1; merged && axis >= 0; --axis) {
      if (t.dims[axis] == 1) continue;
      require(step < 0 || t.strides[axis] == step, "the body's rows");
      step = t.dims[axis] * t.strides[axis];
    }
    for (int axis = 0; axis <= last; ++axis) require(t.dims[axis] == (axis == last ? n : result.dims[axis]) || (!store && t.dims[axis] == 1), "the body's sizes");
  }
}

// The map as the kernel iterates over it, without extents of 1. All its counters fit 32 bits.
void find_walk(const GemmArgs& args, const Call& call, GemmCall& c) {
  GemmWalk& p = c.walk;
  if (args.has_prologue()) {
    // The prologue's row is in shared memory, contiguous.
    std::fill_n(p.m_extent, 4, 1);
    std::fill_n(p.k_extent, 3, 1);
    p.k_extent[3] = p.k_inner = static_cast<int>(c.size.k);
    p.k_step[3] = 1;
    return;
  }
  const size_t indices = size_t{args.map.m_rank} + args.map.k_rank;
  const TensorRef& a = call.operands[0];
  auto sizes = call.sizes.subspan(3, indices + args.map.rank);
  for (size_t j = 0; j < args.map.rank; ++j) {
    const int64_t offset = sizes[indices + j];
    require(offset >= -INT32_MAX && offset <= INT32_MAX && a.dims[j] <= INT32_MAX, "the map's offsets");
  }
  for (size_t i = 0; i < indices; ++i) require(sizes[i] >= 0 && sizes[i] <= INT32_MAX, "extents");
  const IndexMap map = resolve_index_map("gemm", args.map.steps, a, sizes);
  const int guards = args.is_volume() ? 3 : 2, outermost = args.is_volume() ? 0 : 1;
  if (map.axes > guards) fail(Code::unsupported, "a product reads beyond its operand on {} axes, which is not possible on a GPU", map.axes);
  // Each read stays inside A, although the sum of some of its parts may be outside.
  c.matrices.base = static_cast<long>(map.start.offset);
  for (int g = 0; g < 3; ++g) {
    int64_t reach = g < map.axes ? map.start.along[g] : 0;
    for (size_t i = 0; g < map.axes && i < indices; ++i) reach += map.indices[i].along[g] * std::max<int64_t>(map.indices[i].extent - 1, 0);
    require(reach <= INT32_MAX, "the map's reach");
    p.origin[g] = g < map.axes ? static_cast<int>(map.start.along[g]) : 0;
    p.inside[g] = g < map.axes ? static_cast<int>(map.size[g]) : 1;
  }
  auto part = [&](std::span<const IndexMap::Index> of, int* extents, long* steps, int(*guarded)[4]) {
    std::fill_n(extents, 4, 1);
    int at = 4;
    for (size_t i = of.size(); i-- > 0;) {
      const IndexMap::Index& index = of[i];
      if (index.extent == 1) continue;
      if (--at < outermost) fail(Code::unsupported, "a product through a map of more than {} indices is not possible on a GPU", 4 - outermost);
      extents[at] = static_cast<int>(index.extent);
      steps[at] = static_cast<long>(index.step);
      for (int g = 0; g < map.axes; ++g) guarded[g][at] = static_cast<int>(index.along[g]);
    }
  };
  const auto of_k = map.indices.begin() + args.map.m_rank;
  part(collapsed({map.indices.begin(), of_k}, map.axes), p.m_extent, p.m_step, p.m_guard);
  part({of_k, map.indices.end()}, p.k_extent, p.k_step, p.k_guard);
  auto times = [](const int* e) { return static_cast<int64_t>(e[0]) * e[1] * e[2] * e[3]; };
  require(times(p.m_extent) == c.size.m && times(p.k_extent) == c.size.k, "the map's extents");
  const int64_t each = args.together_of_a(), inner = divided_up(p.k_extent[3], each) * each;
  c.size.k = inner * p.k_extent[0] * p.k_extent[1] * p.k_extent[2];
  require(c.size.k <= INT32_MAX, "sizes");
  p.k_inner = static_cast<int>(std::max<int64_t>(inner, each));
}

}  // namespace

GemmCall::GemmCall(const GemmArgs& a, const Call& c, const CudaMachine& m)
    : args(a),
      call(c),
      machine(m),
      first(c.operands.size() - a.operands.size()),
      packed(is_packed(a, c)),
      numbers{c.operands.subspan(first), c.sizes.last(a.sizes)},
      sources{c.operands.first(a.sources.size()), {}} {
  check(args, call, first);
  numbers.check(args.known, "a GEMM");
  size.m = call.sizes[0];
  size.n = call.sizes[1];
  size.k = call.sizes[2];
  if (!packed) matrices.b_step = call.operands[args.left()].strides[(has_experts() ? 1 : 0) + (args.b_along_k ? args.row_rank : args.row_rank - 1)];
  find_walk(args, call, *this);
  // True if the innermost index of K consists of whole vectors of adjacent elements, all of them inside A.
  k_in_vectors =
      walk.k_extent[3] == walk.k_inner && walk.k_step[3] == 1 && std::all_of(std::begin(walk.k_guard), std::end(walk.k_guard), [](const auto& of) { return of[3] == 0; });
  const int64_t each = args.together_of_a();
  a_aligned = matrices.base % each == 0 && k_in_vectors;
  for (int i = 0; i < 4; ++i) a_aligned = a_aligned && walk.m_step[i] % each == 0 && (i == 3 || walk.k_step[i] % each == 0);
  b_aligned = matrices.b_step % args.b_together() == 0;
  others_aligned = true;
  for (size_t k = 0; k < args.sources.size(); ++k) {
    if (args.sources[k].together) in_vectors.push_back(k);
  }
  for (uint8_t k : args.together) {
    const TensorRef& x = numbers.operands[k];
    for (int axis = 0; axis < x.rank; ++axis) others_aligned = others_aligned && (axis == args.row_rank || x.dims[axis] == 1 || x.strides[axis] % 8 == 0);
    in_vectors.push_back(first + k);
  }
}

int64_t GemmCall::first_column(size_t part) const {
  int64_t out = 0;
  for (size_t i = 0; i < part; ++i) out += call.operands[args.left() + i].dims[args.row_rank];
  return out;
}

bool GemmCall::has_one_k() const { return k_in_vectors && size.k == walk.k_inner; }

std::vector<size_t> GemmCall::aligned(bool with_a, bool with_b) const {
  std::vector<size_t> out = in_vectors;
  if (with_a) out.push_back(0);
  for (size_t i = args.left(); with_b && i < args.b_end(); ++i) out.push_back(i);
  return out;
}

std::string GemmCall::problem() const {
  std::vector<int64_t> layouts(call.sizes.begin(), call.sizes.end());
  for (const TensorRef& t : call.operands) {
    layouts.insert(layouts.end(), t.dims, t.dims + t.rank);
    layouts.insert(layouts.end(), t.strides, t.strides + t.rank);
  }
  return fmt::format("{}: {} x {} x {}, layouts {:016x}", args.name, call.sizes[0], call.sizes[1], call.sizes[2], hash64(std::as_bytes(std::span(layouts))));
}

GemmLaunches::GemmLaunches(const GemmCall& c, std::string_view prefix) : call_(c), prefix_(prefix) {}

CudaLaunch& GemmLaunches::add_bytes(std::string_view kernel, const Parameters& own, int64_t blocks, int threads, int shared, const Append& append) {
  using Pointer = CudaLaunch::Pointer;
  const GemmArgs& args = call_.args;
  std::vector<std::byte> parameters(own.bytes.begin(), own.bytes.end());
  std::vector<Pointer> pointers;
  if (own.matrices) {
    pointers.push_back({Pointer::operand, *own.matrices + offsetof(GemmMatrices, a), 0});
    pointers.push_back({Pointer::operand, *own.matrices + offsetof(GemmMatrices, b), args.left()});
  }
  if (own.shares) pointers.push_back({Pointer::scratch, *own.shares + offsetof(GemmShares, parts), 0, parts_});
  call_.numbers.append(parameters, pointers, args.numbers, call_.first);
  if (args.has_prologue()) call_.sources.append(parameters, pointers, {}, 0);
  if (args.parts_of_b > 1) append_parts_of_b(parameters, pointers);
  if (append) append(parameters, pointers);
  parameters.resize(static_cast<size_t>(divided_up(static_cast<int64_t>(parameters.size()), static_cast<int64_t>(own.alignment))) * own.alignment);
  list.add_bytes(fmt::format("{}_{}{}", args.name, prefix_, kernel), blocks, static_cast<uint32_t>(threads), std::move(parameters), std::move(pointers));
  CudaLaunch& made = list.list.back();
  made.shared = static_cast<uint32_t>(shared);
  made.overlaps = true;
  return made;
}

void GemmLaunches::append_parts_of_b(std::vector<std::byte>& parameters, std::vector<CudaLaunch::Pointer>& pointers) const {
  const GemmArgs& args = call_.args;
  size_t at = parameters.size();
  parameters.resize(at + args.parts_of_b * (sizeof(uint64_t) + sizeof(int32_t)));
  for (size_t i = 0; i < args.parts_of_b; ++i, at += sizeof(uint64_t)) pointers.push_back({CudaLaunch::Pointer::operand, at, args.left() + i});
  for (size_t i = 0; i < args.parts_of_b; ++i, at += sizeof(int32_t)) {
    const auto first = static_cast<int32_t>(call_.first_column(i));
    std::memcpy(parameters.data() + at, &first, sizeof first);
  }
}

GemmShares GemmLaunches::share_k(int64_t turns, int64_t splits) {
  GemmShares out{};
  out.turns = static_cast<int>(std::max<int64_t>(1, divided_up(turns, splits)));
  out.splits = static_cast<int>(std::max<int64_t>(1, divided_up(turns, out.turns)));
  if (out.splits > 1) parts_ = list.reserve(4 * out.splits * call_.size.m * call_.size.n);
  return out;
}

void GemmLaunches::finish(const GemmShares& shares) {
  if (shares.splits > 1) add("finish", FinishParameters{call_.size, shares}, divided_up(call_.size.m * call_.size.n / 8, gemm_finish_threads), gemm_finish_threads, 0);
}

}  // namespace ingot::kernels
