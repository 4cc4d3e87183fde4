// Rows that lie side by side in p.to or p.from, as cuFFT has them, from operands and to results. Numbers are real on the real side of a transform, else complex.
//
// A thread has some numbers, a block's apart. p.parts: 1 if the operands' numbers are equally far apart across all rows, so that they are one row.
template <class T, int Kind, class Move>
__device__ __forceinline__ void fourier_move(const FourierCudaParameters& p, i64 each, Move move) {
  const i64 all = p.count * each, first = (i64)blockIdx.x * (fourier_threads * cufft_numbers) + threadIdx.x;
  const FourierRow<T, Kind> whole(p, 0);
#pragma unroll
  for (int n = 0; n < cufft_numbers; ++n) {
    const i64 i = first + n * fourier_threads;
    if (i >= all) return;
    if (p.parts == 1) {
      move(whole, i, i);
    } else {
      const i64 row = all <= 0x7fffffff ? (i64)((unsigned)i / (unsigned)each) : i / each;
      move(FourierRow<T, Kind>(p, row), i, i - row * each);
    }
  }
}
template <class T, int Kind>
__device__ __forceinline__ void fourier_join(const FourierCudaParameters& p) {
  fourier_move<T, Kind>(p, Kind == fourier_to_real ? p.length / 2 + 1 : p.length, [&](const FourierRow<T, Kind>& of, i64 i, i64 k) {
    if (Kind == fourier_of_real) {
      ((T*)p.to)[i] = of.at(0, k);
    } else {
      ((Complex<T>*)p.to)[i] = Kind == fourier_pair ? Complex<T>{of.at(0, k), of.at(1, k)} : of.of_half(k);
    }
  });
}
template <class T, int Kind>
__device__ __forceinline__ void fourier_split(const FourierCudaParameters& p) {
  constexpr int first = Kind == fourier_of_real ? 1 : 2;
  fourier_move<T, Kind>(p, Kind == fourier_of_real ? p.length / 2 + 1 : p.length, [&](const FourierRow<T, Kind>& of, i64 i, i64 k) {
    if (Kind == fourier_to_real) {
      of.at(first, k) = ((const T*)p.from)[i];
    } else {
      const Complex<T> v = ((const Complex<T>*)p.from)[i];
      of.at(first, k) = v.re;
      of.at(first + 1, k) = v.im;
    }
  });
}
