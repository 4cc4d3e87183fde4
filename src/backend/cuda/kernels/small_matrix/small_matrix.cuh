// A group of G threads has a matrix of R rows and C columns; thread r of the group has row r, as the array `a`. Threads beyond the last row have zeros.
// The loops over a row are unrolled: registers have no addresses.
__device__ __forceinline__ f32 fused(f32 x, f32 y, f32 z) { return fmaf(x, y, z); }
__device__ __forceinline__ f64 fused(f64 x, f64 y, f64 z) { return fma(x, y, z); }
__device__ __forceinline__ f32 root_of(f32 x) { return sqrtf(x); }
__device__ __forceinline__ f64 root_of(f64 x) { return sqrt(x); }
__device__ __forceinline__ f32 log_of(f32 x) { return logf(x); }
__device__ __forceinline__ f64 log_of(f64 x) { return log(x); }
template <class T> __device__ __forceinline__ T magnitude_of(T x) { return x < T(0) ? -x : x; }
// The number of another row's thread.
template <int G, class T> __device__ __forceinline__ T from_row(T v, int row) { return __shfl_sync(0xffffffffu, v, (threadIdx.x % 32) / G * G + row); }
template <int G, class T>
__device__ __forceinline__ T sum_of_rows(T v) {
#pragma unroll
  for (int d = G / 2; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}
// The largest number; NaN if one is.
template <int G, class T>
__device__ __forceinline__ T largest_of_rows(T v) {
#pragma unroll
  for (int d = G / 2; d > 0; d /= 2) {
    const T other = __shfl_xor_sync(0xffffffffu, v, d);
    if (other > v || other != other) v = other;
  }
  return v;
}
// What a thread works on: its row of each operand. Groups beyond the last matrix repeat the first one and store nothing.
template <int G>
struct MatrixRow {
  const SmallMatrixCudaParameters& p;
  int row;
  bool inside;
  i64 offset[4];
  __device__ __forceinline__ MatrixRow(const SmallMatrixCudaParameters& parameters) : p(parameters) {
    const i64 matrix = (i64)blockIdx.x * (matrix_threads / G) + threadIdx.x / G;
    row = threadIdx.x % G;
    inside = matrix < p.count;
    for (int i = 0; i < 4; ++i) offset[i] = 0;
    walk(p.axes, inside ? matrix : (i64)0, offset);
  }
  template <class M> __device__ __forceinline__ M* at(int operand, int of_row, i64 column) const {
    return (M*)p.at[operand] + offset[operand] + of_row * p.row[operand] + column * p.column[operand];
  }
  template <int R, int C, class M>
  __device__ __forceinline__ void load(M* a) const {
#pragma unroll
    for (int j = 0; j < C; ++j) a[j] = row < R ? *at<M>(0, row, j) : M(0);
  }
  // A number of a matrix, from its first thread.
  template <class M> __device__ __forceinline__ void put_one(int operand, M v) const {
    if (inside && row == 0) *at<M>(operand, 0, 0) = v;
  }
};
// P L U by partial pivoting. Rows stay with their threads: `position` is where this row is in L and U, owner[k] the thread of row k. Thread k keeps the k-th pivot.
template <int R, int C>
struct Least { static constexpr int value = R < C ? R : C; };
template <int G, int R, int C, class T>
__device__ __forceinline__ void factor_lu(T* a, int& position, int* owner, int& pivot, int& info) {
  const int row = threadIdx.x % G;
  position = row;
  pivot = info = 0;
#pragma unroll
  for (int k = 0; k < Least<R, C>::value; ++k) {
    T largest = row < R && position >= k ? magnitude_of(a[k]) : T(-1);
    if (largest != largest) largest = T(1) / T(0);
    int at = position * 32 + row;
#pragma unroll
    for (int d = G / 2; d > 0; d /= 2) {
      const T other = __shfl_xor_sync(0xffffffffu, largest, d);
      const int other_at = __shfl_xor_sync(0xffffffffu, at, d);
      if (other > largest || (other == largest && other_at < at)) largest = other, at = other_at;
    }
    const int from = at % 32, was = at / 32;
    owner[k] = from;
    if (row == k) pivot = was + 1;
    position = row == from ? k : position == k ? was : position;
    const T diagonal = from_row<G>(a[k], from);
    if (diagonal == T(0) && info == 0) info = k + 1;
    const bool below = position > k;
    const T factor = diagonal == T(0) ? a[k] : a[k] / diagonal;
    if (below) a[k] = factor;
#pragma unroll
    for (int j = k + 1; j < C; ++j) {
      const T u = from_row<G>(a[j], from);
      if (below) a[j] = fused(-factor, u, a[j]);
    }
  }
}
constexpr int columns_of_block = 4;  // of a right side, in registers
// Solves with the triangle above or below the diagonal. b: this row's numbers.
template <int G, int R, bool Upper, bool Unit, class T>
__device__ __forceinline__ void solve_rows(const T* a, int position, const int* owner, T* b) {
#pragma unroll
  for (int step = 0; step < R; ++step) {
    const int k = Upper ? R - 1 - step : step;
#pragma unroll
    for (int c = 0; c < columns_of_block; ++c) {
      if (!Unit && position == k) b[c] /= a[k];
      const T x = from_row<G>(b[c], owner[k]);
      if (Upper ? position < k : position > k) b[c] = fused(-a[k], x, b[c]);
    }
  }
}
template <int G, class M, int R, int C>
__device__ __forceinline__ void matrix_lu(const SmallMatrixCudaParameters& p) {
  const MatrixRow<G> m(p);
  M a[C];
  int owner[Least<R, C>::value], position, pivot, info;
  m.template load<R, C>(a);
  factor_lu<G, R, C>(a, position, owner, pivot, info);
  if (m.inside && m.row < R) {
#pragma unroll
    for (int j = 0; j < C; ++j) *m.template at<M>(1, position, j) = a[j];
    if (m.row < Least<R, C>::value) *m.template at<i32>(2, 0, m.row) = pivot;
  }
  m.put_one(3, (i32)info);
}
// `identity`: the right side; else it is operand 1. The results are operands `to` and to + 1.
template <int G, class M, int R, bool Identity>
__device__ __forceinline__ void solve_by_lu(const SmallMatrixCudaParameters& p, int to) {
  const MatrixRow<G> m(p);
  M a[R], b[columns_of_block];
  int owner[R], position, pivot, info;
  m.template load<R, R>(a);
  factor_lu<G, R, R>(a, position, owner, pivot, info);
  for (i64 begin = 0; begin < p.columns; begin += columns_of_block) {
#pragma unroll
    for (int c = 0; c < columns_of_block; ++c) {
      const bool stored = m.row < R && begin + c < p.columns;
      b[c] = Identity ? M(m.row == begin + c ? 1 : 0) : stored ? *m.template at<M>(1, m.row, begin + c) : M(0);
    }
    solve_rows<G, R, false, true>(a, position, owner, b);
    solve_rows<G, R, true, false>(a, position, owner, b);
#pragma unroll
    for (int c = 0; c < columns_of_block; ++c) {
      if (m.inside && m.row < R && begin + c < p.columns) *m.template at<M>(to, position, begin + c) = b[c];
    }
  }
  m.put_one(to + 1, (i32)info);
}
template <int G, class M, int R, int C> __device__ __forceinline__ void matrix_solve(const SmallMatrixCudaParameters& p) { solve_by_lu<G, M, R, false>(p, 2); }
template <int G, class M, int R, int C> __device__ __forceinline__ void matrix_inverse(const SmallMatrixCudaParameters& p) { solve_by_lu<G, M, R, true>(p, 1); }
template <int G, class M, int R, int C>
__device__ __forceinline__ void matrix_determinant(const SmallMatrixCudaParameters& p) {
  const MatrixRow<G> m(p);
  M a[C], determinant = M(1), sign = M(1), log = M(0);
  int owner[R], position, pivot, info;
  m.template load<R, C>(a);
  factor_lu<G, R, C>(a, position, owner, pivot, info);
#pragma unroll
  for (int k = 0; k < R; ++k) {
    const M u = from_row<G>(a[k], owner[k]), direction = u > M(0) ? M(1) : u < M(0) ? M(-1) : u;
    const bool swapped = from_row<G>(pivot, k) != k + 1;
    determinant *= swapped ? -u : u;
    sign *= swapped ? -direction : direction;
    log += log_of(magnitude_of(u));
  }
  m.put_one(1, determinant);
  m.put_one(2, sign);
  m.put_one(3, log);
}
template <int G, class M, int R, int C>
__device__ __forceinline__ void matrix_cholesky(const SmallMatrixCudaParameters& p) {
  const MatrixRow<G> m(p);
  M a[C];
  int info = 0;
  m.template load<R, C>(a);
#pragma unroll
  for (int k = 0; k < R; ++k) {
    const M square = from_row<G>(a[k], k);
    if (!(square > M(0)) && info == 0) info = k + 1;
    const M diagonal = root_of(square);
    a[k] = m.row == k ? diagonal : a[k] / diagonal;
#pragma unroll
    for (int j = k + 1; j < R; ++j) {
      const M l = from_row<G>(a[k], j);
      if (m.row >= j) a[j] = fused(-a[k], l, a[j]);
    }
  }
  if (m.inside && m.row < R) {
#pragma unroll
    for (int j = 0; j < R; ++j) *m.template at<M>(1, m.row, j) = j <= m.row ? a[j] : M(0);
  }
  m.put_one(2, (i32)info);
}
template <int G, class M, int R, int C, bool Upper, bool Unit>
__device__ __forceinline__ void matrix_solve_triangular(const SmallMatrixCudaParameters& p) {
  const MatrixRow<G> m(p);
  M a[C], b[columns_of_block];
  int owner[R];
  m.template load<R, C>(a);
#pragma unroll
  for (int k = 0; k < R; ++k) owner[k] = k;
  for (i64 begin = 0; begin < p.columns; begin += columns_of_block) {
#pragma unroll
    for (int c = 0; c < columns_of_block; ++c) b[c] = m.row < R && begin + c < p.columns ? *m.template at<M>(1, m.row, begin + c) : M(0);
    solve_rows<G, R, Upper, Unit>(a, m.row, owner, b);
#pragma unroll
    for (int c = 0; c < columns_of_block; ++c) {
      if (m.inside && m.row < R && begin + c < p.columns) *m.template at<M>(2, m.row, begin + c) = b[c];
    }
  }
}
// Q R by reflections I - tau v v^T. v's number of this row, for reflection k.
template <class T> __device__ __forceinline__ T reflector_of(const T* a, int row, int k) { return row < k ? T(0) : row == k ? T(1) : a[k]; }
template <int G, class M, int R, int C, int Wide>
__device__ __forceinline__ void matrix_qr(const SmallMatrixCudaParameters& p) {
  constexpr int each = Least<R, C>::value;
  const MatrixRow<G> m(p);
  M a[C], tau_of_row = M(0);
  m.template load<R, C>(a);
#pragma unroll
  for (int k = 0; k < each; ++k) {
    const M below = m.row > k ? a[k] : M(0), alpha = from_row<G>(a[k], k), largest = largest_of_rows<G>(magnitude_of(below));
    const bool none = largest == M(0);
    const M scale = none ? M(1) : magnitude_of(alpha) > largest ? magnitude_of(alpha) : largest;
    const M v = below / scale, norm = scale * root_of(sum_of_rows<G>(v * v) + alpha / scale * (alpha / scale));
    const M beta = none ? alpha : alpha < M(0) || M(1) / alpha < M(0) ? norm : -norm;
    const M tau = none ? M(0) : (beta - alpha) / beta;
    if (m.row == k) a[k] = beta, tau_of_row = tau;
    if (m.row > k && !none) a[k] /= alpha - beta;
    const M reflector = reflector_of(a, m.row, k);
#pragma unroll
    for (int j = k + 1; j < C; ++j) a[j] = fused(-tau * sum_of_rows<G>(reflector * a[j]), reflector, a[j]);
  }
  if (m.inside && m.row < Wide) {
#pragma unroll
    for (int j = 0; j < C; ++j) *m.template at<M>(2, m.row, j) = j >= m.row ? a[j] : M(0);
  }
  for (int begin = 0; begin < Wide; begin += columns_of_block) {
    M q[columns_of_block];
#pragma unroll
    for (int c = 0; c < columns_of_block; ++c) q[c] = M(m.row == begin + c ? 1 : 0);
#pragma unroll
    for (int k = each - 1; k >= 0; --k) {
      const M tau = from_row<G>(tau_of_row, k), reflector = reflector_of(a, m.row, k);
#pragma unroll
      for (int c = 0; c < columns_of_block; ++c) q[c] = fused(-tau * sum_of_rows<G>(reflector * q[c]), reflector, q[c]);
    }
#pragma unroll
    for (int c = 0; c < columns_of_block; ++c) {
      if (m.inside && m.row < R && begin + c < Wide) *m.template at<M>(1, m.row, begin + c) = q[c];
    }
  }
}
