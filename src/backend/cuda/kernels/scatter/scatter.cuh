constexpr u64 no_key = ~0ull;  // for a point whose index is out of range
// The destination of a point; no_key, which is reported, if an index is out of range.
__device__ __forceinline__ u64 key_of(const ScatterCudaParameters& p, i64 line, i64 point) {
  i64 at_line[3] = {0, 0, 0}, at_point[9] = {0, 0, 0, 0, 0, 0, 0, 0, 0};
  walk(p.line_axes, line, at_line);
  walk(p.point_axes, point, at_point);
  u64 key = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    if (k >= p.indices) break;
    i64 index = ((const i64*)p.index[k])[at_point[1 + k] + (k == 0 ? at_line[0] : 0)], there = p.wrap && index < 0 ? index + p.extent[k] : index;
    if ((u64)there >= (u64)p.extent[k]) {
      report((u64*)p.status, 1, index, p.extent[k]);
      return no_key;
    }
    key += (u64)(there * p.step[k]);
  }
  return key;
}
__device__ __forceinline__ void make_keys(const ScatterCudaParameters& p) {
  const i64 n = (i64)blockIdx.x * scatter_threads + threadIdx.x, line = n / p.points;
  if (line < p.lines) ((u64*)p.keys)[n] = key_of(p, line, n - line * p.points);
}
// The points of a line in order, and the addresses of their elements.
template <class M>
struct Points {
  const u64* keys;
  const u32* order;
  const M* updates;
  M* out;
  const CudaAxes<9>* axes;
  __device__ __forceinline__ Points(const ScatterCudaParameters& p, i64 line, i64 element) {
    i64 at_line[3] = {0, 0, 0}, at_element[2] = {0, 0};
    walk(p.line_axes, line, at_line);
    walk(p.element_axes, element, at_element);
    keys = (const u64*)p.keys + line * p.room;
    order = p.order == 0 ? nullptr : (const u32*)p.order + line * p.room;
    updates = (const M*)p.updates + at_line[1] + at_element[0];
    out = (M*)p.out + at_line[2] + at_element[1];
    axes = &p.point_axes;
  }
  __device__ __forceinline__ M update(i64 place) const {
    i64 n = order == nullptr ? place : order[place], at = 0;
    // Only the first tensor's offset is needed.
    for (int d = axes->rank - 1; d >= 0; --d) {
      i64 here = n;
      if (d > 0) {
        i64 rest = n / axes->dims[d];
        here = n - rest * axes->dims[d];
        n = rest;
      }
      at += here * axes->strides[0][d];
    }
    return updates[at];
  }
};
template <class M>
__device__ __forceinline__ void scatter_set(const ScatterCudaParameters& p) {
  i64 n = (i64)blockIdx.x * scatter_threads + threadIdx.x;
  const i64 element = n % p.elements, place = n / p.elements % p.points, line = n / p.elements / p.points;
  if (line >= p.lines) return;
  Points<M> points(p, line, element);
  const u64 key = points.keys[place];
  // The last point of a destination wins.
  if (key == no_key || (place + 1 < p.points && points.keys[place + 1] == key)) return;
  points.out[(i64)key] = points.update(place);
}
// Of few points: each looks for later ones of its destination, and nothing is sorted.
template <class M>
__device__ __forceinline__ void scatter_set_few(const ScatterCudaParameters& p) {
  const u32 n = blockIdx.x * (u32)scatter_threads + threadIdx.x, elements = (u32)p.elements, all = (u32)p.points;  // below 2^31
  const u32 element = n % elements, place = n / elements % all, line = n / elements / all;
  if (line >= p.lines) return;
  const u64 key = key_of(p, line, place);
  if (key == no_key) return;
  for (u32 later = place + 1; later < all; ++later) {
    if (key_of(p, line, later) == key) return;
  }
  Points<M> points(p, line, element);
  points.out[(i64)key] = points.update(place);
}
template <class M, int Kind>
__device__ __forceinline__ void store_combined(M& out, typename NumberOf<M>::Type total) { put_number(out, combined<Kind>(number(out), total)); }
template <class M, int Kind>
__device__ __forceinline__ void scatter_chunks(const ScatterCudaParameters& p) {
  typedef typename NumberOf<M>::Type T;
  const i64 n = (i64)blockIdx.x * scatter_threads + threadIdx.x;
  const i64 element = n % p.elements, chunk = n / p.elements % p.chunks, line = n / p.elements / p.chunks;
  if (line >= p.lines) return;
  Points<M> points(p, line, element);
  const i64 begin = chunk * p.chunk, end = begin + p.chunk < p.points ? begin + p.chunk : p.points;
  for (i64 place = begin; place < end;) {
    const u64 key = points.keys[place];
    if (key == no_key) {
      ++place;
      continue;
    }
    const bool from_before = place == begin && begin > 0 && points.keys[begin - 1] == key;
    T total = number(points.update(place));
    for (++place; place < end && points.keys[place] == key; ++place) total = combined<Kind>(total, number(points.update(place)));
    if (from_before) {
      ((T*)p.begun)[n] = total;
    } else if (place == end && end < p.points && points.keys[end] == key) {
      ((T*)p.ended)[n] = total;
    } else {
      store_combined<M, Kind>(points.out[(i64)key], total);
    }
  }
}
// Keys that start in a chunk and continue after it.
template <class M, int Kind>
__device__ __forceinline__ void scatter_rest(const ScatterCudaParameters& p) {
  typedef typename NumberOf<M>::Type T;
  const i64 n = (i64)blockIdx.x * scatter_threads + threadIdx.x;
  const i64 element = n % p.elements, chunk = n / p.elements % p.chunks, line = n / p.elements / p.chunks;
  if (line >= p.lines) return;
  Points<M> points(p, line, element);
  const i64 begin = chunk * p.chunk, end = begin + p.chunk;
  if (end >= p.points) return;
  const u64 key = points.keys[end - 1];
  if (key == no_key || points.keys[end] != key || (begin > 0 && points.keys[begin - 1] == key)) return;
  i64 low = end + 1, high = p.points;  // the first place after the key
  while (low < high) {
    i64 middle = (low + high) / 2;
    if (points.keys[middle] == key) low = middle + 1; else high = middle;
  }
  T total = ((const T*)p.ended)[n];
  const T* begun = (const T*)p.begun + n;
  const i64 chunks = (low - 1) / p.chunk - chunk;
#pragma unroll 8
  for (i64 c = 1; c <= chunks; ++c) total = combined<Kind>(total, begun[c * p.elements]);
  store_combined<M, Kind>(points.out[(i64)key], total);
}
