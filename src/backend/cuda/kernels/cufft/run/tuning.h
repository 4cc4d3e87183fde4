// When cuFFT is taken instead of ingot's own kernels. Lengths are complex numbers of a transform; measured on an H200 by `INGOT_MEASURE=1 test_backend_cuda --gtest_filter=cufft.speed`, columns by
// docs/performance-notes/operators.md.
#pragma once
#include <cstdint>

namespace ingot::kernels::cufft_tuning {

// Elements of the shortest transforms that cuFFT does although it needs copies: of parts that lie apart at both ends; of halves, which it overwrites, so that they are always copied; and of rows that are not
// equally far apart. Measured by cufft.speed of test_backend_cuda on an H200, in float32, for 2 to 64000 rows. The own kernel takes, in the geometric mean of these, so many times as long as cuFFT with its copies:
//            from this length on                shorter
//   apart    1.0 to 3.6 (0.93 for 400)          0.85 to 1.06
//   halves   1.05 to 4                          0.85 to 0.96
//   uneven   0.92 to 3.3                        0.6 to 1.2
// Without copies it takes 1.8 to 7 times as long, and a length with a large prime factor 1.4 or more in each case.
// Columns, whose neighbours the own kernel reads together, in fft2 of 8 x 512 x 512 and 2 x 1024 x 1024: 45 and 40 us, by cuFFT with its copies 85. Of 1536 numbers cuFFT takes 0.77 of the own kernel's time.
inline constexpr int64_t shortest_columns = 1536;
inline constexpr int64_t shortest_apart = 128, shortest_half = 8, shortest_uneven = 512;

}  // namespace ingot::kernels::cufft_tuning
