// Runs one step on its own memory, for tests: guarded, poisoned, and checked for writes outside its views.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "backend/run/device.h"
#include "backend/run/host.h"
#include "base/parallel.h"
#include "ir/half.h"

namespace ingot::kernels {

// An element's index on each axis. It owns nothing, as references read millions of elements.
using At = std::span<const int64_t>;

// A strided tensor of numbers with guards on both sides.
class TestTensor {
 public:
  ir::DType dtype;
  std::vector<int64_t> dims, strides;

  // `order`: axis order in memory, outermost first; empty = row-major. `broadcast` axes have stride 0. `pad`: unused elements after each innermost row.
  TestTensor(ir::DType t, std::vector<int64_t> sizes, std::vector<size_t> order = {}, std::vector<size_t> broadcast = {}, int64_t pad = 0)
      : dtype(t), dims(std::move(sizes)), strides(dims.size(), 0) {
    if (order.empty()) {
      order.resize(dims.size());
      std::iota(order.begin(), order.end(), size_t{0});
    }
    int64_t count = 1;
    for (size_t k = order.size(); k-- > 0;) {
      if (std::find(broadcast.begin(), broadcast.end(), order[k]) != broadcast.end()) continue;
      strides[order[k]] = count;
      count = count * dims[order[k]] + (k + 1 == order.size() ? pad : 0);
    }
    bytes_.assign((static_cast<size_t>(count) * ir::size_of(t) + 63) / 64 * 64 + 2 * guard, poison);
  }

  double get(At at) const {
    const std::byte* p = bytes_.data() + offset(at);
    auto as = [&](auto v) {
      std::memcpy(&v, p, sizeof v);
      return v;
    };
    switch (dtype) {
      case ir::DType::f32: return static_cast<double>(as(float{}));
      case ir::DType::f64: return as(double{});
      case ir::DType::f16: return static_cast<double>(ir::f16_to_float(as(uint16_t{})));
      case ir::DType::bf16: return static_cast<double>(ir::bf16_to_float(as(uint16_t{})));
      case ir::DType::i8: return as(int8_t{});
      case ir::DType::i32: return as(int32_t{});
      case ir::DType::i64: return static_cast<double>(as(int64_t{}));
      default: throw std::logic_error("a dtype that tests do not use");
    }
  }
  double get(std::initializer_list<int64_t> at) const { return get(At(at.begin(), at.size())); }
  void put(std::initializer_list<int64_t> at, double v) { put(At(at.begin(), at.size()), v); }
  void put(At at, double v) {
    std::byte* p = bytes_.data() + offset(at);
    auto as = [&](auto x) { std::memcpy(p, &x, sizeof x); };
    switch (dtype) {
      case ir::DType::f32: return as(static_cast<float>(v));
      case ir::DType::f64: return as(v);
      case ir::DType::f16: return as(ir::float_to_f16(static_cast<float>(v)));
      case ir::DType::bf16: return as(ir::float_to_bf16(static_cast<float>(v)));
      case ir::DType::i8: return as(static_cast<int8_t>(v));
      case ir::DType::i32: return as(static_cast<int32_t>(v));
      case ir::DType::i64: return as(static_cast<int64_t>(v));
      default: throw std::logic_error("a dtype that tests do not use");
    }
  }
  // All elements, the last axis fastest.
  std::vector<double> values() const {
    std::vector<double> v;
    each([&](const std::vector<int64_t>& at) { v.push_back(get(at)); });
    return v;
  }
  // Calls fn(index) for every element, the last axis fastest.
  template <class F>
  void each(F fn) const {
    for (int64_t d : dims) {
      if (d == 0) return;
    }
    std::vector<int64_t> at(dims.size(), 0);
    for (;;) {
      fn(at);
      size_t d = dims.size();
      while (d > 0 && ++at[d - 1] == dims[d - 1]) at[--d] = 0;
      if (d == 0) return;
    }
  }
  TensorRef ref() { return {bytes_.data() + guard, dtype, static_cast<int>(dims.size()), dims.data(), strides.data()}; }

  // True if every byte that belongs to no element is unchanged.
  bool untouched_outside() const {
    std::vector<bool> own(bytes_.size());
    each([&](const std::vector<int64_t>& at) {
      for (size_t k = 0; k < ir::size_of(dtype); ++k) own[offset(at) + k] = true;
    });
    for (size_t k = 0; k < own.size(); ++k) {
      if (!own[k] && bytes_[k] != poison) return false;
    }
    return true;
  }

 private:
  static constexpr size_t guard = 256;
  static constexpr std::byte poison{0xff};  // NaN in every float

  size_t offset(At at) const {
    int64_t n = 0;
    for (size_t d = 0; d < at.size(); ++d) n += at[d] * strides[d];
    return guard + static_cast<size_t>(n) * ir::size_of(dtype);
  }
  std::vector<std::byte> bytes_;
};

// Integers of -3 to 3, each by its place: sums of their products are exact.
inline void fill_with_integers(TestTensor& t, uint32_t seed) {
  t.each([&](const std::vector<int64_t>& at) {
    uint32_t h = seed;
    for (size_t d = 0; d < at.size(); ++d) h = (h ^ static_cast<uint32_t>(t.strides[d] == 0 ? 0 : at[d])) * 2654435761u + 40503u, h ^= h >> 15;
    t.put(at, static_cast<double>(h % 7) - 3);
  });
}

// Three threads.
inline Workers& three() {
  static std::unique_ptr<Workers> pool = make_pool(3);
  return *pool;
}

// The lines of kernels.def that begin so.
inline std::vector<std::string_view> kernels_of(std::string_view family) {
  std::vector<std::string_view> all = {
#define X(name) #name,
#include "backend/cpu/run/kernels.def"
#undef X
  };
  std::erase_if(all, [&](std::string_view name) { return !name.starts_with(family); });
  return all;
}

// What a kernel may choose for a call.
struct Choosing {
  std::span<const Timing> timings = {};  // of its plan
  std::vector<Tunable> tunables = {};    // found: what can be timed,
  size_t scratch = 0;                    // and the scratch of what was chosen
};

// Runs the CPU's kernel with scratch full of NaN; throws if it writes past the scratch. False: the kernel cannot compute these sizes.
inline bool run_kernel(std::string_view name, std::span<const std::byte> constants, std::span<const TensorRef> operands, std::span<const int64_t> sizes = {},
                       Workers& workers = inline_workers(), Choosing* choosing = nullptr) {
  const RunKernel* kernel = backend::find_cpu_kernel(name);
  if (kernel == nullptr) throw std::logic_error("the CPU has no such kernel");
  auto loaded = kernel->load(constants, operands.size(), sizes.size());
  Call call;
  call.operands = operands;
  call.sizes = sizes;
  call.constants = loaded.get();
  call.workers = &workers;
  const backend::Host device(backend::find_cpu_kernel, backend::cpu_backend().machine(), choosing != nullptr ? choosing->timings : std::span<const Timing>());
  call.backend = &device;
  Resolved resolved = kernel->resolve(call);
  if (choosing != nullptr) choosing->tunables = kernel->tunables != nullptr ? kernel->tunables(call) : std::vector<Tunable>(), choosing->scratch = resolved.scratch;
  if (std::isinf(resolved.nanoseconds)) return false;
  std::vector<std::byte> scratch(resolved.scratch + 64 + 256, std::byte{0xff});
  auto start = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
  call.scratch = start;
  call.prepared = resolved.state.get();
  kernel->run(call);
  for (std::byte* p = start + resolved.scratch; p < scratch.data() + scratch.size(); ++p) {
    if (*p != std::byte{0xff}) throw std::logic_error("the kernel wrote behind its scratch");
  }
  return true;
}
inline bool run_kernel(std::string_view name, std::span<const std::byte> constants, const std::vector<TestTensor*>& operands, const std::vector<int64_t>& sizes, Workers& workers,
                       Choosing* choosing = nullptr) {
  std::vector<TensorRef> refs;
  for (TestTensor* t : operands) refs.push_back(t->ref());
  return run_kernel(name, constants, refs, sizes, workers, choosing);
}

}  // namespace ingot::kernels
