#include "backend/cuda/kernels/depthwise_conv/run/depthwise_conv_launches.h"

#include <algorithm>

#include "backend/cuda/kernels/depthwise_conv/run/depthwise_conv_cuda_args.h"
#include "backend/cuda/kernels/run/numbers.h"
#include "backend/cuda/run/launch.h"
#include "base/error.h"
#include "kernels/run/index_map.h"

namespace ingot::kernels {

namespace {

using Args = DepthwiseConvCudaArgs;

void require(bool good, const char* what) {
  if (!good) fail(Code::format, "the operands of a depthwise_conv step do not fit: {}", what);
}

// For each axis of A: coordinates must fit 32 bits, also for outputs past a line's end, and stay inside the axis if the kernel does not check.
void check_map(const Args& a, const TensorRef& x, std::span<const int64_t> sizes) {
  constexpr int64_t most = int64_t{1} << 30;
  const size_t indices = a.indices();
  for (size_t j = 0; j < a.rank; ++j) {
    const int64_t* steps = a.steps.data() + j * indices;
    const int64_t offset = sizes[indices + j];
    __int128 greatest = offset;
    for (size_t i = 0; i < indices; ++i) greatest += static_cast<__int128>(steps[i]) * std::max<int64_t>(0, sizes[i] - 1);
    require(offset > -most && offset < most && x.dims[j] < most && greatest + static_cast<__int128>(steps[size_t{a.kept} - 2]) * a.tile < most, "the map reaches too far");
    const bool guarded = std::find(a.unguarded.begin(), a.unguarded.end(), j) == a.unguarded.end();
    require(steps[a.kept - 1] == 0 || (steps[a.kept - 1] == 1 && offset == 0 && !guarded), "channels are not an axis");
    require(guarded || (offset >= 0 && greatest < x.dims[j]), "the map leaves an axis");
  }
}

// The sizes that an operand but A has, or 1 where it repeats.
std::vector<int64_t> extents_of(const Args& a, std::span<const int64_t> sizes, size_t operand) {
  if (!a.grouped) return {sizes.begin(), sizes.begin() + static_cast<int64_t>(a.rank_of(operand))};
  auto product = [&](size_t from, size_t to) {
    int64_t n = 1;
    for (size_t i = from; i < to; ++i) require(!__builtin_mul_overflow(n, sizes[i], &n), "extents");
    return n;
  };
  std::vector<int64_t> out(sizes.begin(), sizes.begin() + a.batch);
  out.push_back(operand == 1 ? product(a.kept, a.indices()) : product(a.batch, size_t{a.kept} - 1));
  out.push_back(sizes[size_t{a.kept} - 1]);
  return out;
}

void check(const Args& a, const Call& call) {
  const size_t indices = a.indices();
  const std::span<const int64_t> extents = call.sizes.first(indices);
  for (int64_t extent : extents) require(extent >= 0 && extent < (int64_t{1} << 30), "extents");
  for (size_t k = 0; k < call.operands.size(); ++k) {
    const TensorRef& x = call.operands[k];
    const size_t rank = a.rank_of(k);
    require(x.dtype == a.operands[k].dtype && x.rank == static_cast<int>(rank), "types and ranks");
    const bool written = k + a.stores >= call.operands.size();
    const std::vector<int64_t> own = k == 0 ? std::vector<int64_t>() : extents_of(a, call.sizes, k);
    for (size_t axis = 0; axis < rank && k > 0; ++axis) require(x.dims[axis] == own[axis] || (!written && x.dims[axis] == 1), "sizes");
  }
  // The text steps along a constant stride: the axis must have that many elements.
  for (const CudaKnown& k : a.known) {
    if (k.number.kind != CudaNumber::stride || k.number.a == 0 || k.value == 0) continue;
    require(call.operands[k.number.a].dims[k.number.b] == extents_of(a, call.sizes, k.number.a)[k.number.b], "a size is 1 that was not when it was compiled");
  }
  check_map(a, call.operands[0], call.sizes);
}

// True if vectors start at aligned addresses, provided that the operands do.
bool in_vectors(const Args& a, const Call& call) {
  const size_t channel = size_t{a.kept} - 1, line = channel - 1;
  bool any = a.vector > 1;
  if (call.sizes[channel] % a.vector != 0) return false;
  for (size_t k = 0; k < call.operands.size(); ++k) {
    const int64_t vector = a.operands[k].vector;
    if (vector == 1) continue;
    any = true;
    const TensorRef& x = call.operands[k];
    // The index whose neighbours are accessed together.
    const size_t along = a.lines || (!a.grouped && k > 1 && x.strides[channel] != 1) ? line : channel;
    const auto bytes = static_cast<int64_t>(ir::size_of(x.dtype)), access = std::min<int64_t>(16, bytes * vector);
    for (size_t axis = 0; axis < static_cast<size_t>(x.rank); ++axis) {
      const bool neighbours = a.grouped ? x.strides[axis] == 1 : k == 0 ? a.steps[axis * a.indices() + along] != 0 : axis == along;
      if (neighbours ? x.dims[axis] % vector != 0 : x.dims[axis] > 1 && x.strides[axis] * bytes % access != 0) return false;
    }
  }
  return any;
}

}  // namespace

std::shared_ptr<const void> load_depthwise_conv_cuda(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto args = std::make_shared<Args>(parse_depthwise_conv_cuda(constants));
  if (args->operands.size() != operands || args->sizes != sizes) {
    fail(Code::format, "a depthwise_conv step has {} operands and {} sizes, its arguments {} and {}", operands, sizes, args->operands.size(), args->sizes);
  }
  return args;
}

CudaLaunches depthwise_conv_cuda_launches(const Call& call, const CudaMachine&) {
  const auto& args = *static_cast<const Args*>(call.constants);
  check(args, call);
  const CudaNumbers numbers{call.operands, call.sizes};
  numbers.check(args.known, "a depthwise_conv");
  CudaLaunches out;
  const int64_t width = call.sizes[size_t{args.kept} - 2], channels = call.sizes[size_t{args.kept} - 1];
  int64_t lines = 1;
  for (size_t i = 0; i + 2 < args.kept; ++i) {
    if (__builtin_mul_overflow(lines, call.sizes[i], &lines)) fail(Code::unsupported, "a depthwise_conv step is too large for a GPU");
  }
  if (lines == 0 || width == 0 || channels == 0) return out;
  std::vector<CudaLaunch::Pointer> pointers;
  std::vector<std::byte> parameters;
  numbers.append(parameters, pointers, args.numbers, 0);
  auto launch = [&](int variant, int64_t vector) {
    const bool by_warps = variant == 0 && args.matrices;
    int64_t threads = by_warps ? divided_up(width, Args::rows_of_matrix) * 32 : divided_up(width, args.tile) * (channels / vector) * args.lanes;
    // Thread indices are 32-bit.
    if (__builtin_mul_overflow(threads, lines, &threads) || threads > int64_t{UINT32_MAX} - Args::threads) {
      fail(Code::unsupported, "a depthwise_conv step is too large for a GPU");
    }
    CudaLaunches one;
    one.add_bytes(fmt::format("{}_{}", args.name, variant), divided_up(threads, Args::threads), Args::threads, parameters, pointers);
    one.list[0].overlaps = true;
    return std::move(one.list);
  };
  if (in_vectors(args, call)) {
    for (size_t k = 0; k < args.operands.size(); ++k) {
      if (args.operands[k].vector > 1) out.aligned.push_back(k);
    }
    out.list = launch(0, args.vector);
    out.any = launch(1, args.grouped ? args.vector : 1);
  } else {
    out.list = launch(1, args.grouped ? args.vector : 1);
  }
  return out;
}

std::span<const RunKernel> depthwise_conv_cuda_kernels() {
  static constexpr RunKernel list[] = {{"depthwise_conv", load_depthwise_conv_cuda, resolved<depthwise_conv_cuda_launches>, run_launches}};
  return list;
}

}  // namespace ingot::kernels
