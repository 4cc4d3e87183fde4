// Rows that lie side by side in p.to or p.from, as cuFFT has them, from operands and to results. Numbers are real on the real side of a transform, else complex.
//
// A thread has some numbers, a block's apart. p.parts: 1 if the operands' numbers have one stride across all rows, so that they are one row.
// move(row, its number, number of all, number in the row).
template <class T, int Kind, class Move>
__device__ __forceinline__ void fourier_move(const FourierCudaParameters& p, i64 each, Move move) {
  const i64 all = p.count * each, first = (i64)blockIdx.x * (fourier_threads * cufft_numbers) + threadIdx.x;
  const FourierRow<T, Kind> whole(p, 0);
#pragma unroll
  for (int n = 0; n < cufft_numbers; ++n) {
    const i64 i = first + n * fourier_threads;
    if (i >= all) return;
    if (p.parts == 1) {
      move(whole, 0, i, i);
    } else {
      const i64 row = all <= 0x7fffffff ? (i64)((unsigned)i / (unsigned)each) : i / each;
      move(FourierRow<T, Kind>(p, row), row, i, i - row * each);
    }
  }
}
// The row of a half that has the conjugates of a row's numbers without a conjugate in it: element -k along the other axes.
__device__ __forceinline__ i64 fourier_conjugate_row(const FourierCudaParameters& p, i64 row) {
  const i64 inner = row % p.others[1], outer = row / p.others[1] % p.others[0];
  return row - inner - outer * p.others[1] + (outer == 0 ? 0 : p.others[0] - outer) * p.others[1] + (inner == 0 ? 0 : p.others[1] - inner);
}
// An element of such a half: of the two that should be each other's conjugates, each counts half.
template <class T, int Kind>
__device__ __forceinline__ Complex<T> fourier_of_halves(const FourierRow<T, Kind>& of, i64 row, i64 k) {
  const bool shared = k == 0 || 2 * k == of.p.length;
  const i64 there = shared ? fourier_conjugate_row(of.p, row) : row;
  if (there == row) return of.of_half(k);
  const FourierRow<T, Kind> other(of.p, there);
  return {(of.at(0, k) + other.at(0, k)) * T(0.5), (of.at(1, k) - other.at(1, k)) * T(0.5)};
}
template <class T, int Kind>
__device__ __forceinline__ void fourier_join(const FourierCudaParameters& p) {
  fourier_move<T, Kind>(p, Kind == fourier_to_real ? p.length / 2 + 1 : p.length, [&](const FourierRow<T, Kind>& of, i64 row, i64 i, i64 k) {
    if (Kind == fourier_of_real) {
      ((T*)p.to)[i] = of.at(0, k);
    } else {
      ((Complex<T>*)p.to)[i] = Kind == fourier_pair ? Complex<T>{of.at(0, k), of.at(1, k)} : fourier_of_halves(of, row, k);
    }
  });
}
template <class T, int Kind>
__device__ __forceinline__ void fourier_split(const FourierCudaParameters& p) {
  constexpr int first = Kind == fourier_of_real ? 1 : 2;
  fourier_move<T, Kind>(p, Kind == fourier_of_real ? p.length / 2 + 1 : p.length, [&](const FourierRow<T, Kind>& of, i64, i64 i, i64 k) {
    if (Kind == fourier_to_real) {
      of.at(first, k) = ((const T*)p.from)[i];
    } else {
      const Complex<T> v = ((const Complex<T>*)p.from)[i];
      of.at(first, k) = v.re;
      of.at(first + 1, k) = v.im;
    }
  });
}
