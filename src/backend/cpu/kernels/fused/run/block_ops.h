// Loops over blocks, one table per instruction set. An operand is a block of n elements, or one element for all (uniform). Classes of
// computation: bools as uint8_t, integers of each type, f32 (for half types too), f64.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/fused/run/row_segments.h"
#include "backend/cpu/kernels/fused/run/row_steps.h"
#include "backend/cpu/kernels/fused/run/tuning.h"
#include "backend/cpu/kernels/run/tuning.h"
#include "ir/dtype.h"
#include "ir/op.h"

namespace ingot::kernels {

enum class Class : uint8_t { b8, u8, i8, i16, i32, i64, f32, f64 };
constexpr bool is_integer(Class c) { return c >= Class::u8 && c <= Class::i64; }
// Bytes per element of a block.
constexpr size_t size_of(Class c) { return c <= Class::i8 ? 1 : c == Class::i16 ? 2 : c == Class::i32 || c == Class::f32 ? 4 : 8; }
// Operations that blocks of each integer type have; others are computed as i64.
constexpr bool is_native(ir::Op op) {
  switch (op) {
    case ir::Op::add:
    case ir::Op::sub:
    case ir::Op::mul:
    case ir::Op::min:
    case ir::Op::max:
    case ir::Op::bit_and:
    case ir::Op::bit_or:
    case ir::Op::bit_xor:
    case ir::Op::bit_not:
    case ir::Op::shift_left:
    case ir::Op::shift_right:
    case ir::Op::neg:
    case ir::Op::abs:
    case ir::Op::eq:
    case ir::Op::ne:
    case ir::Op::lt:
    case ir::Op::le:
    case ir::Op::gt:
    case ir::Op::ge: return true;
    default: return false;
  }
}
enum class Reduction : uint8_t { sum, prod, max, min, any, all, argmax, argmin };

struct BlockArgument {
  const void* data;
  bool uniform;
};

// Rows of numbers of any type to be added: row p is at from + p * step, plus at[p * at_step] if there is `at`, times by[p * by_step] if there is `by`. Only floats have either.
struct SummedRows {
  const void* from;
  int64_t step;
  const int64_t* at = nullptr;
  int64_t at_step = 0;
  const float* by = nullptr;
  int64_t by_step = 0;
  ir::DType type = ir::DType::f32;
};

// What one pass computes of elements as they are in memory. between: min(high, max(low, x)); cube: x * x * x; select: b where a is true, else c.
enum class Pass : uint8_t { add, sub, mul, div, max, min, neg, abs, relu, sqrt, between, cube, select };

// Of each row: x + m, x - m, x * m, x / m, or x * (1 / m), where m is a number.
enum class ByRow : uint8_t { add, sub, mul, div, fraction };

struct BlockOps {
  // d[i] = op(a[i], ...), in the operands' class (select: that of a and b; cast: `from` and the result's)
  void (*map_f32)(ir::Op, float* d, const BlockArgument* in, int64_t n);
  void (*map_f64)(ir::Op, double* d, const BlockArgument* in, int64_t n);
  // a native operation of an integer class, or any of i64, whose result is then that of an integer of so many bits
  void (*map_int)(Class, ir::Op, void* d, const BlockArgument* in, int64_t n, int bits, bool is_signed);
  void (*map_b8)(ir::Op, uint8_t* d, const BlockArgument* in, int64_t n);
  // comparisons and tests of any class, into b8
  void (*test)(ir::Op, Class, uint8_t* d, const BlockArgument* in, int64_t n);
  void (*select)(Class, void* d, const BlockArgument* in, int64_t n);
  // between classes; to f16/bf16 it rounds (the result stays f32), to an integer it wraps
  void (*cast)(Class from, ir::DType to, void* d, BlockArgument in, int64_t n);
  // memory <-> blocks; stride in elements. Integers are not converted.
  void (*load)(ir::DType memory, void* d, const void* from, int64_t stride, int64_t n);
  void (*store)(ir::DType memory, void* to, int64_t stride, BlockArgument from, int64_t n);
  // to[i] = from[at[i]]
  void (*gather)(ir::DType memory, void* to, const void* from, const int64_t* at, int64_t n);
  // at[i] = base + index[i] * stride; returns false, with `at` invalid, if an index is outside [0, extent)
  bool (*set_places)(int64_t* at, int64_t base, const int64_t* index, int64_t stride, int64_t extent, int64_t n);
  // at[i] += index[i] * stride; returns false, with `at` invalid, if an index is outside [0, extent)
  bool (*add_places)(int64_t* at, const int64_t* index, int64_t stride, int64_t extent, int64_t n);
  // Adds element number `place` to each of n independent reductions of class c. `so_far`: doubles for sums and products of floats, bytes for logic, else
  // class c. `best`: the position, for argmax and argmin.
  void (*take)(Reduction, Class c, void* so_far, int64_t* best, BlockArgument x, int64_t place, int64_t n);
  // The same for sums of (c ? x * w : 0) of floats; `c` may be absent.
  void (*take_weighed)(double* so_far, BlockArgument x, BlockArgument w, BlockArgument c, bool first, int64_t n);
  // The same for sums of `places` rows in memory.
  void (*take_rows)(double* so_far, const SummedRows&, int64_t places, bool first, int64_t n);
  // The same for sums and sums of squares.
  void (*take_moments)(double* sums, double* squares, const float* from, int64_t step, int64_t places, bool first, int64_t n);
  // to[c * to_row + r] = from[r * from_row + c] for r < rows, c < columns
  void (*transpose)(float* to, int64_t to_row, const float* from, int64_t from_row, int64_t rows, int64_t columns);
  // The same for elements of 1, 2, 4 or 8 bytes; rows are steps of elements.
  void (*transpose_elements)(size_t element, void* to, int64_t to_row, const void* from, int64_t from_row, int64_t rows, int64_t columns);
  // to[r * to_row + c] = from[r * from_row + c] * by[r * by_step] for r < rows, c < columns
  void (*scale_rows)(float* to, int64_t to_row, const float* from, int64_t from_row, const float* by, int64_t by_step, int64_t rows, int64_t columns);
  // One step of the online softmax for each row of n scores (a NaN is the maximum): updates largest[r]; a[r, :] = exp(a[r, :] - largest[r]), or zeros while
  // all are -inf; total[r] = total[r] * keep[r] + sum of a[r, :], where keep[r] = exp(old largest - new).
  void (*softmax_rows)(float* a, int64_t row, int64_t rows, int64_t n, float* largest, float* total, float* keep);
  float (*sum_f32)(const float*, int64_t n);
  float (*sum_halves)(ir::DType, const void*, int64_t n);
  float (*max_f32)(const float*, int64_t n);  // NaN if there is one
  float (*min_f32)(const float*, int64_t n);
  double (*extreme_f64)(bool up, const double*, int64_t n);  // the maximum or minimum of n > 0; NaN if there is one
  float (*dot)(const float* a, const float* b, int64_t n);
  // The sum, product, maximum or minimum of n > 0 integers or bools; any: are there any that are not 0; all: are there any that are 0.
  int64_t (*fold)(Reduction, Class, const void*, int64_t n);
  // The first element that equals `value`, or the first NaN if it is one; n if there is none.
  int64_t (*find_f32)(const float*, float value, int64_t n);
  double (*product)(Class, const void*, int64_t n);  // of floats or doubles
  // the softmax numerator: d[i] = exp(a[i] - m), where no a[i] exceeds m; returns the sum of d
  float (*exp_sum)(float* d, const float* a, float m, int64_t n);
  // sum of (a[i] - m)^2
  float (*square_sum)(const float* a, float m, int64_t n);
  // the same two sums in double, of n floats or doubles
  double (*wide_sum)(Class, const void*, int64_t n);
  double (*wide_square_sum)(Class, const void* a, double m, int64_t n);
  // One pass over elements as they are in memory: halves are computed as floats in registers. A number for all is a float for halves. `between` and `cube`: of every type but bools; the others: of
  // halves.
  void (*pass)(Pass, ir::DType, void* d, const BlockArgument* in, int64_t n);
  // Several instructions in one pass (blocks of f32):
  void (*activate)(ir::Op, float* d, const BlockArgument* in, int64_t n);  // op(x + b) * y + r
  void (*normalise)(float* d, const BlockArgument* in, int64_t n);  // (x - m) * s * w + b
  void (*multiply_add)(float* d, const BlockArgument* in, int64_t n);  // a * b + c
  void (*extreme)(ir::Op, float* d, const BlockArgument* in, int count, int64_t n);  // the maximum or minimum of `count` values; NaN if there is one
  void (*divide)(float* d, const float* x, float s, int64_t n);  // x / s, s >= 1
  // Rows of n floats with stride `step`, where d is contiguous; m, to and sums: one number for each row.
  void (*by_rows)(ByRow, float* d, const float* x, int64_t step, const float* m, int64_t n, int64_t rows);
  void (*fold_rows)(Reduction, float* to, const float* x, int64_t step, int64_t n, int64_t rows);  // sum, max or min
  void (*exp_sum_rows)(float* d, const float* x, int64_t step, const float* m, float* sums, int64_t n, int64_t rows);
  // Runs all steps of a body on `columns` elements of each of `count` rows.
  void (*run_rows)(const RowSteps&, const RowPointers*, int count, int64_t columns);
  // Copies rows of elements of 1, 2, 4 or 8 bytes; `fill`: the bits of what is outside.
  void (*copy_rows)(size_t element, uint64_t fill, const RowSegment*, size_t segments, const RowPlaces&);
  void (*extreme_rows)(bool up, float* to, const float* const* from, int count, int64_t columns);  // one row: the greatest or least of `count` rows; NaN if there is one
  double (*wide_dot)(const double* a, const double* b, int64_t n);
};

const BlockOps& block_ops();  // for this machine

// The class of memory or values of a type. Error (format) for complex numbers.
Class class_of(ir::DType);
// The type whose memory has the form of the class's blocks.
ir::DType dtype_of(Class);
// Integers of any type in memory as i64; stride in elements.
void load_i64(ir::DType memory, int64_t* to, const void* from, int64_t stride, int64_t n);

extern const BlockOps block_ops_portable;
extern const BlockOps block_ops_avx2;
extern const BlockOps block_ops_avx512;

}  // namespace ingot::kernels
