#include "backend/cuda/kernels/run/windows.h"

#include <algorithm>

#include "backend/cuda/kernels/run/numbers.h"
#include "base/error.h"

namespace ingot::kernels {

namespace {

void require(const char* step, bool good, const char* what) {
  if (!good) fail(Code::format, "the operands of {} step do not fit: {}", step, what);
}

// For each axis of A: coordinates must fit 32 bits, also for outputs past a line's end, and stay inside the axis if the kernel does not check.
void check_map(const WindowArgs& a, const char* step, const Call& call) {
  constexpr int64_t limit = int64_t{INT32_MAX} / 2 + 1;
  const TensorRef& x = call.operands[0];
  const size_t indices = a.indices();
  for (size_t j = 0; j < a.rank; ++j) {
    const int64_t* steps = a.steps.data() + j * indices;
    const int64_t offset = call.sizes[indices + j];
    __int128 greatest = offset;
    for (size_t i = 0; i < indices; ++i) greatest += static_cast<__int128>(steps[i]) * std::max<int64_t>(0, call.sizes[i] - 1);
    const bool fits = offset > -limit && offset < limit && x.dims[j] < limit && greatest + static_cast<__int128>(steps[a.line()]) * a.tile < limit;
    require(step, fits, "the map reaches too far");
    const bool guarded = std::find(a.unguarded.begin(), a.unguarded.end(), j) == a.unguarded.end();
    require(step, steps[a.last()] == 0 || (steps[a.last()] == 1 && offset == 0 && !guarded), "channels are not an axis");
    require(step, guarded || (offset >= 0 && greatest < x.dims[j]), "the map leaves an axis");
  }
}

// True if vectors start at aligned addresses, provided that the operands do.
bool in_vectors(const WindowArgs& a, std::span<const uint32_t> vector_axes, const Call& call) {
  bool any = a.vector > 1;
  if (call.sizes[a.last()] % a.vector != 0) return false;
  for (size_t k = 0; k < call.operands.size(); ++k) {
    const int64_t vector = a.operands[k].vector;
    if (vector == 1) continue;
    any = true;
    const TensorRef& x = call.operands[k];
    const auto bytes = static_cast<int64_t>(ir::size_of(x.dtype)), access = std::min<int64_t>(16, bytes * vector);
    for (size_t axis = 0; axis < static_cast<size_t>(x.rank); ++axis) {
      if ((vector_axes[k] >> axis & 1) != 0 ? x.dims[axis] % vector != 0 : x.dims[axis] > 1 && x.strides[axis] * bytes % access != 0) return false;
    }
  }
  return any;
}

}  // namespace

void check_window_operands(const WindowArgs& a, const char* step, std::span<const int64_t> of_b, std::span<const int64_t> of_body, const Call& call) {
  for (int64_t extent : call.sizes.first(a.indices())) require(step, extent >= 0 && extent < (int64_t{1} << 30), "extents");
  for (size_t k = 0; k < call.operands.size(); ++k) {
    const TensorRef& x = call.operands[k];
    const std::span<const int64_t> wanted = k == 1 ? of_b : of_body;
    require(step, x.dtype == a.operands[k].dtype && x.rank == static_cast<int>(k == 0 ? a.rank : wanted.size()), "types and ranks");
    const bool written = k + a.stores >= call.operands.size();
    for (size_t axis = 0; k > 0 && axis < wanted.size(); ++axis) require(step, x.dims[axis] == wanted[axis] || (!written && x.dims[axis] == 1), "sizes");
  }
  // The text steps along a constant stride: the axis must have that many elements.
  for (const CudaKnown& k : a.known) {
    if (k.number.kind != CudaNumber::stride || k.number.a == 0 || k.value == 0) continue;
    require(step, call.operands[k.number.a].dims[k.number.b] == (k.number.a == 1 ? of_b : of_body)[k.number.b], "a size is 1 that was not when it was compiled");
  }
  check_map(a, step, call);
}

CudaLaunches window_launches(const WindowArgs& args, const char* step, const WindowThreads& each, const Call& call) {
  const CudaNumbers numbers{call.operands, call.sizes};
  numbers.check(args.known, step);
  CudaLaunches out;
  auto check_size = [&](bool good) {
    if (!good) fail(Code::unsupported, "{} step is too large for a GPU", step);
  };
  int64_t lines = 1;
  for (size_t i = 0; i < args.line(); ++i) check_size(!__builtin_mul_overflow(lines, call.sizes[i], &lines));
  if (lines == 0 || call.sizes[args.line()] == 0 || call.sizes[args.last()] == 0) return out;
  std::vector<CudaLaunch::Pointer> pointers;
  std::vector<std::byte> parameters;
  numbers.append(parameters, pointers, args.numbers, 0);
  auto launch = [&](int variant) {
    // Thread indices are 32-bit.
    int64_t threads = 0;
    check_size(!__builtin_mul_overflow(variant == 0 ? each.in_vectors : each.single, lines, &threads) && threads <= int64_t{UINT32_MAX} - WindowArgs::threads);
    CudaLaunches one;
    one.add_bytes(fmt::format("{}_{}", args.name, variant), divided_up(threads, WindowArgs::threads), WindowArgs::threads, parameters, pointers);
    one.list[0].overlaps = true;
    return std::move(one.list);
  };
  if (!in_vectors(args, each.vector_axes, call)) {
    out.list = launch(1);
    return out;
  }
  for (size_t k = 0; k < args.operands.size(); ++k) {
    if (args.operands[k].vector > 1) out.aligned.push_back(k);
  }
  out.list = launch(0);
  out.any = launch(1);
  return out;
}

}  // namespace ingot::kernels
