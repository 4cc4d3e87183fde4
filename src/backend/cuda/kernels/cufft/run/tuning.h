// Transforms that cuFFT does although it needs copies. Measured by cufft.speed of test_backend_cuda, `INGOT_MEASURE=1 test_backend_cuda --gtest_filter=cufft.speed`, on an H200, in float32, for 2 to 64000 rows.
// The own kernel takes, in the geometric mean of these, so many times as long as cuFFT with its copies:
//            from this length on                shorter
//   planar   1.0 to 3.6 (0.93 for 400)          0.85 to 1.06
//   halves   1.05 to 4                          0.85 to 0.96
//   uneven   0.92 to 3.3                        0.6 to 1.2
// Without copies it takes 1.8 to 7 times as long, and a length with a large prime factor 1.4 or more in each case.
#pragma once
#include <cstdint>

namespace ingot::kernels::cufft_tuning {

// Columns, whose neighbours the own kernel reads together (docs/performance-notes/operators.md), in fft2 of 8 x 512 x 512 and 2 x 1024 x 1024: 45 and 40 us, by cuFFT with its copies 85. Of
// 1536 elements cuFFT takes 0.77 of the own kernel's time.
inline constexpr int64_t shortest_columns = 1536;
// Elements of the shortest transforms: of planar numbers at both ends; of halves, which it overwrites, so that they are always copied; and of rows without one stride.
inline constexpr int64_t shortest_planar = 128, shortest_half = 8, shortest_uneven = 512;

// Elements, complex numbers, of a thread that joins the parts of numbers or splits them: so many loads wait for memory together. Not measured by itself.
inline constexpr int numbers_of_thread = 4;

}  // namespace ingot::kernels::cufft_tuning
