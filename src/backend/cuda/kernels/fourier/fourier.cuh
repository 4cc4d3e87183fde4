// Fourier transforms by stages of Stockham's algorithm, each from one array of complex numbers to another. A length with a large prime factor is done by Bluestein's algorithm: a convolution by
// transforms of a power of two, p.whole. Inverse transforms have the parts swapped, before and after.
enum FourierKind { fourier_pair, fourier_of_real, fourier_to_real };
template <class T>
struct alignas(2 * sizeof(T)) Complex {
  T re, im;
};
template <class T> __device__ __forceinline__ Complex<T> product_of(Complex<T> a, Complex<T> b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
template <class T> __device__ __forceinline__ Complex<T> swapped(Complex<T> a) { return {a.im, a.re}; }
// exp(-2 pi i k / n), 0 <= k < n. The angle is brought into an eighth of the circle while it is a whole number.
template <class T>
__device__ __noinline__ Complex<T> root_of_unity(i64 k, i64 n) {
  i64 x = 4 * k;  // in 1 / (4 n) of the circle
  T up = -1, right = 1;
  if (x > 2 * n) {
    x = 4 * n - x;
    up = 1;
  }
  if (x > n) {
    x = 2 * n - x;
    right = -1;
  }
  const bool other = 2 * x > n;
  if (other) x = n - x;
  const T angle = (T)(3.14159265358979323846 * ((f64)x / (f64)(2 * n)));
  const T c = cos_called(angle), s = sin_called(angle);
  return {right * (other ? s : c), up * (other ? c : s)};
}
// What a transform reads and writes in the operands: its row of each.
template <class T, int Kind>
struct FourierRow {
  const FourierCudaParameters& p;
  i64 offset[4];
  __device__ __forceinline__ FourierRow(const FourierCudaParameters& parameters, i64 row) : p(parameters) {
    for (int i = 0; i < 4; ++i) offset[i] = 0;
    walk(p.axes, row, offset);
  }
  __device__ __forceinline__ T& at(int operand, i64 j) const { return ((T*)p.at[operand])[offset[operand] + j * p.step[operand]]; }
  // Real numbers of an even length are pairs of neighbours, transformed as half as many complex numbers.
  __device__ __forceinline__ bool neighbours() const { return p.n != p.length; }
  __device__ __forceinline__ Complex<T> chirp(i64 k) const { return root_of_unity<T>((i64)((u64)k * (u64)k % (u64)(2 * p.n)), 2 * p.n); }
  // An element of a half. What has no conjugate is real.
  __device__ __forceinline__ Complex<T> of_half(i64 k) const { return {at(0, k), k == 0 || 2 * k == p.length ? T(0) : at(1, k)}; }
  __device__ __forceinline__ Complex<T> given(i64 k) const {
    if (Kind == fourier_pair) return {at(0, k), at(1, k)};
    if (Kind == fourier_of_real) {
      if (neighbours()) return {at(0, 2 * k), at(0, 2 * k + 1)};
      return {at(0, k), T(0)};
    }
    if (!neighbours()) {
      if (2 * k <= p.length) return swapped(of_half(k));
      const Complex<T> there = of_half(p.length - k);
      return {-there.im, there.re};
    }
    // The even and the odd elements' transforms, as the first and the second part of complex numbers.
    const Complex<T> a = of_half(k), b = of_half(p.n - k), root = root_of_unity<T>(k, p.length);
    const Complex<T> odd = product_of(Complex<T>{a.re - b.re, a.im + b.im}, Complex<T>{root.re, -root.im});
    return {a.im - b.im + odd.re, a.re + b.re - odd.im};
  }
  // An element of what the stages begin with.
  __device__ __forceinline__ Complex<T> first(i64 k) const {
    if (p.whole == p.n) return given(k);
    return k < p.n ? product_of(given(k), chirp(k)) : Complex<T>{T(0), T(0)};
  }
  // The same of the convolution's other side.
  __device__ __forceinline__ Complex<T> first_of_filter(i64 k) const {
    const i64 from = k < p.n ? k : p.whole - k;
    if (from >= p.n) return {T(0), T(0)};
    const Complex<T> c = chirp(from);
    const T scale = T(1) / (T)p.whole;  // a power of two
    return {c.re * scale, -c.im * scale};
  }
  // An element of the transform, of what the stages made.
  __device__ __forceinline__ Complex<T> last(const Complex<T>* made, i64 k) const { return p.whole == p.n ? made[k] : product_of(swapped(made[k]), chirp(k)); }
  __device__ __forceinline__ i64 stores() const { return Kind == fourier_of_real ? p.length / 2 + 1 : p.n; }
  __device__ __forceinline__ void store(const Complex<T>* made, i64 k) const {
    if (Kind == fourier_of_real && neighbours()) {
      const Complex<T> a = last(made, k == p.n ? 0 : k), b = last(made, k == 0 ? 0 : p.n - k), root = root_of_unity<T>(k, p.length);
      const Complex<T> odd = product_of(Complex<T>{a.im + b.im, b.re - a.re}, root);
      at(1, k) = (a.re + b.re + odd.re) * T(0.5);
      at(2, k) = (a.im - b.im + odd.im) * T(0.5);
      return;
    }
    const Complex<T> v = last(made, k);
    if (Kind != fourier_to_real) {
      at(Kind == fourier_pair ? 2 : 1, k) = v.re;
      at(Kind == fourier_pair ? 3 : 2, k) = v.im;
    } else if (neighbours()) {
      at(2, 2 * k) = v.im;
      at(2, 2 * k + 1) = v.re;
    } else {
      at(2, k) = v.im;
    }
  }
};
// exp(-2 pi i k / p.whole), for all stages: their lengths divide p.whole.
template <class T>
__device__ __forceinline__ void fourier_roots(const FourierCudaParameters& p) {
  const i64 k = (i64)blockIdx.x * fourier_threads + threadIdx.x;
  if (k < p.whole) ((Complex<T>*)p.roots)[k] = root_of_unity<T>(k, p.whole);
}
// Butterfly i of a stage: elements p + parts * k, of `step` neighbours each. Index: i32 in a block's memory, i64 in scratch.
template <int R, class T, class Index>
__device__ __forceinline__ void stage_by(const Complex<T>* from, Complex<T>* to, const Complex<T>* roots, Index i, Index parts, Index step, int radix) {
  const Index p = i / step, q = i - p * step;
  T re[R], im[R], cos[R > 5 ? R : 1], sin[R > 5 ? R : 1];
  for (int k = 0; k < radix; ++k) {
    const Complex<T> v = from[q + step * (p + parts * k)];
    re[k] = v.re;
    im[k] = v.im;
    if (R > 5) {
      const Complex<T> root = roots[k * parts * step];
      cos[R > 5 ? k : 0] = root.re;
      sin[R > 5 ? k : 0] = -root.im;
    }
  }
  butterfly<R>(re, im, radix, cos, sin);
  Complex<T>* const place = to + q + step * radix * p;
  place[0] = {re[0], im[0]};
  for (int k = 1; k < radix; ++k) place[step * k] = product_of(Complex<T>{re[k], im[k]}, roots[p * k * step]);
}
// Called: it is long, and few lengths need it.
template <class T, class Index>
__device__ __noinline__ void stage_by_any(const Complex<T>* from, Complex<T>* to, const Complex<T>* roots, Index i, Index parts, Index step, int radix) {
  stage_by<max_radix>(from, to, roots, i, parts, step, radix);
}
template <class T, class Index>
__device__ __forceinline__ void fourier_stage(const Complex<T>* from, Complex<T>* to, const Complex<T>* roots, Index i, Index parts, Index step, int radix) {
  switch (radix) {
    case 2: stage_by<2>(from, to, roots, i, parts, step, 2); break;
    case 3: stage_by<3>(from, to, roots, i, parts, step, 3); break;
    case 4: stage_by<4>(from, to, roots, i, parts, step, 4); break;
    case 5: stage_by<5>(from, to, roots, i, parts, step, 5); break;
    default: stage_by_any(from, to, roots, i, parts, step, radix);
  }
}
// All stages in shared memory, by some threads of a block for each of its transforms. Gives the array that the last one wrote.
template <class T>
__device__ __forceinline__ Complex<T>* stages_in_block(const FourierCudaParameters& p, Complex<T>* from, Complex<T>* to, int thread, int threads) {
  i32 parts = (i32)p.whole, step = 1;
  for (int s = 0; s < p.stages; ++s) {
    const int radix = p.radix[s];
    parts /= radix;
    for (i32 i = thread; i < parts * step; i += threads) fourier_stage(from, to, (const Complex<T>*)p.roots, i, parts, step, radix);
    step *= radix;
    __syncthreads();
    Complex<T>* const kept = from;
    from = to;
    to = kept;
  }
  return from;
}
// p.group transforms in a block; or, once, the filter of the convolution. A thread loads and stores for one transform and computes for one, which differ if p.across.
template <class T, int Kind, bool Filter>
__device__ __forceinline__ void fourier_in_block(const FourierCudaParameters& p) {
  extern __shared__ __align__(1024) uint4 tiles_of_block[];
  const int threads = fourier_threads / p.group, thread = threadIdx.x % threads, place = threadIdx.x / threads;
  const int moved = p.across ? threadIdx.x % p.group : place, mover = p.across ? threadIdx.x / p.group : thread;
  const i64 row = (i64)blockIdx.x * p.group + moved;
  const bool inside = row < p.count;
  const i32 whole = (i32)p.whole;
  const FourierRow<T, Kind> of(p, inside ? row : 0);
  Complex<T>*const memory = (Complex<T>*)tiles_of_block, *const a = memory + place * p.pitch, *const b = memory + (p.group + place) * p.pitch;
  for (i32 k = mover; k < whole; k += threads) memory[moved * p.pitch + k] = Filter ? of.first_of_filter(k) : of.first(k);
  __syncthreads();
  Complex<T>* made = stages_in_block(p, a, b, thread, threads);
  if (Filter) {
    for (i32 k = thread; k < whole; k += threads) ((Complex<T>*)p.filter)[k] = made[k];
    return;
  }
  if (p.whole != p.n) {
    for (i32 k = thread; k < whole; k += threads) made[k] = swapped(product_of(made[k], ((const Complex<T>*)p.filter)[k]));
    __syncthreads();
    made = stages_in_block(p, made, made == a ? b : a, thread, threads);
  }
  if (!inside) return;
  made = memory + ((made == a ? 0 : p.group) + moved) * p.pitch;
  const i32 stores = (i32)of.stores();
  for (i32 k = mover; k < stores; k += threads) of.store(made, k);
}
// The same by launches, in scratch.
template <class T, int Kind, bool Filter>
__device__ __forceinline__ void fourier_load(const FourierCudaParameters& p) {
  const i64 i = (i64)blockIdx.x * fourier_threads + threadIdx.x, row = i / p.whole, k = i - row * p.whole;
  if (row >= p.count) return;
  const FourierRow<T, Kind> of(p, row);
  ((Complex<T>*)p.to)[i] = Filter ? of.first_of_filter(k) : of.first(k);
}
template <class T>
__device__ __forceinline__ void fourier_one_stage(const FourierCudaParameters& p) {
  const i64 each = p.parts * p.neighbours, i = (i64)blockIdx.x * fourier_threads + threadIdx.x, row = i / each;
  if (row < p.count) fourier_stage<T, i64>((const Complex<T>*)p.from + row * p.whole, (Complex<T>*)p.to + row * p.whole, (const Complex<T>*)p.roots, i - row * each, p.parts, p.neighbours, p.radix[0]);
}
template <class T>
__device__ __forceinline__ void fourier_middle(const FourierCudaParameters& p) {
  const i64 i = (i64)blockIdx.x * fourier_threads + threadIdx.x;
  if (i >= p.count * p.whole) return;
  Complex<T>& v = ((Complex<T>*)p.to)[i];
  v = swapped(product_of(v, ((const Complex<T>*)p.filter)[i % p.whole]));
}
template <class T, int Kind>
__device__ __forceinline__ void fourier_store(const FourierCudaParameters& p) {
  const i64 each = Kind == fourier_of_real ? p.length / 2 + 1 : p.n, i = (i64)blockIdx.x * fourier_threads + threadIdx.x, row = i / each;
  if (row < p.count) FourierRow<T, Kind>(p, row).store((const Complex<T>*)p.from + row * p.whole, i - row * each);
}
