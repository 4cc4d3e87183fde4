// Reads and writes elements of every dtype one at a time: floats as double, others as int64. For kernels that are not bound by arithmetic (scatter, sort).
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "ir/half.h"
#include "kernels/run/kernel.h"

namespace ingot::kernels {

template <class M>
struct PlainElement {
  using Memory = M;
  using Number = std::conditional_t<std::is_floating_point_v<M>, double, int64_t>;
  static Number get(const std::byte* p) {
    M v;
    std::memcpy(&v, p, sizeof v);
    return static_cast<Number>(v);
  }
  static void put(std::byte* p, Number n) {
    auto v = static_cast<M>(n);
    std::memcpy(p, &v, sizeof v);
  }
};
struct BoolElement : PlainElement<uint8_t> {
  static int64_t get(const std::byte* p) { return *p != std::byte{0}; }
  static void put(std::byte* p, int64_t n) { *p = std::byte{n != 0}; }
};
template <float (*widen)(uint16_t), uint16_t (*narrow)(float)>
struct HalfElement {
  using Memory = uint16_t;
  using Number = double;
  static double get(const std::byte* p) {
    uint16_t v;
    std::memcpy(&v, p, sizeof v);
    return static_cast<double>(widen(v));
  }
  static void put(std::byte* p, double n) {
    uint16_t v = narrow(static_cast<float>(n));
    std::memcpy(p, &v, sizeof v);
  }
};

// Calls f(Element) for the element type of `t`.
template <class F>
void with_element(ir::DType t, F f) {
  using ir::DType;
  switch (t) {
    case DType::b8: return f(BoolElement());
    case DType::u8: return f(PlainElement<uint8_t>());
    case DType::i8: return f(PlainElement<int8_t>());
    case DType::i16: return f(PlainElement<int16_t>());
    case DType::i32: return f(PlainElement<int32_t>());
    case DType::i64: return f(PlainElement<int64_t>());
    case DType::f16: return f(HalfElement<ir::f16_to_float, ir::float_to_f16>());
    case DType::bf16: return f(HalfElement<ir::bf16_to_float, ir::float_to_bf16>());
    case DType::f32: return f(PlainElement<float>());
    case DType::f64: return f(PlainElement<double>());
    case DType::c32:
    case DType::c64:
    case DType::c128:
    case DType::u16:
    case DType::u32:
    case DType::u64: fail(Code::format, "a step works on {} elements", torch_name_of(t));
  }
}

// Coordinates of element number `n` in row-major order.
inline void coordinates(int64_t n, const TensorRef& t, int64_t* at) {
  for (int d = t.rank - 1; d >= 0; --d) {
    at[d] = n % t.dims[d];
    n /= t.dims[d];
  }
}

inline std::byte* element(const TensorRef& t, int64_t offset) { return t.data + offset * static_cast<int64_t>(ir::size_of(t.dtype)); }

// Calls fn(coordinates, with 0 on the axis) for every line along `axis`, in parallel tasks.
template <class F>
void for_lines(const TensorRef& t, int axis, Workers& workers, F fn) {
  int64_t lines = 1;
  for (int d = 0; d < t.rank; ++d) {
    if (d != axis) lines *= t.dims[d];
  }
  int64_t work = lines * (t.rank == 0 ? 1 : t.dims[axis]);
  int64_t tasks = work < 20000 ? 1 : std::min<int64_t>(lines, workers.count() * 4);
  workers.run(tasks, [&](int64_t task, int worker) {
    int64_t at[max_rank] = {};
    for (int64_t line = lines * task / tasks; line < lines * (task + 1) / tasks; ++line) {
      int64_t rest = line;
      for (int d = t.rank - 1; d >= 0; --d) {
        if (d == axis) continue;
        at[d] = rest % t.dims[d];
        rest /= t.dims[d];
      }
      fn(at, worker);
    }
  });
}

}  // namespace ingot::kernels
