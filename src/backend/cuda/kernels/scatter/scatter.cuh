constexpr u64 no_key = ~0ull;  // for a point whose index is out of range
// The destination of a point; no_key, which is reported, if an index is out of range.
__device__ __forceinline__ u64 key_of(const ScatterCudaParameters& p, i64 line, i64 point) {
  i64 at_line[3] = {0, 0, 0}, at_point[9] = {0, 0, 0, 0, 0, 0, 0, 0, 0};
  walk(p.line_axes, line, at_line);
  walk(p.point_axes, point, at_point);
  // All indices are read before one is looked at: an error would keep the next read waiting.
  u64 key = 0;
  i64 indices[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) indices[k] = k < p.indices ? ((const i64*)p.index[k])[at_point[1 + k] + (k == 0 ? at_line[0] : 0)] : 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    if (k >= p.indices) break;
    const i64 index = indices[k], there = p.wrap && index < 0 ? index + p.extent[k] : index;
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
    i64 at[1] = {0};  // only the first tensor's offset is needed
    walk_first<1>(*axes, (i64)(order == nullptr ? place : order[place]), at);
    return updates[at[0]];
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
// Of few points: each looks for later ones of its destination, and nothing is sorted. A block computes the keys of
// its lines first: of as many points as it has threads, and of what belongs to other blocks of its first and last line.
template <class M>
__device__ __forceinline__ void scatter_set_few(const ScatterCudaParameters& p) {
  __shared__ u64 keys[2 * scatter_threads];
  const u32 first = blockIdx.x * (u32)scatter_threads, n = first + threadIdx.x, elements = (u32)p.elements, all = (u32)p.points;  // below 2^31
  const u32 element = n % elements, place = n / elements % all, line = n / elements / all, first_line = first / elements / all;
  const u32 last_line = (first + (u32)scatter_threads - 1) / elements / all, lines = (last_line < (u32)p.lines ? last_line + 1 : (u32)p.lines) - first_line;
  for (u32 k = threadIdx.x; k < lines * all; k += (u32)scatter_threads) keys[k] = key_of(p, first_line + k / all, k % all);
  // What the indices do not choose.
  const bool inside = line < p.lines;
  Points<M> points(p, inside ? line : 0, element);
  const M update = inside ? points.update(place) : M();
  __syncthreads();
  if (!inside) return;
  const u64* const own = keys + (line - first_line) * all;
  const u64 key = own[place];
  if (key == no_key) return;
  for (u32 later = place + 1; later < all; ++later) {
    if (own[later] == key) return;
  }
  points.out[(i64)key] = update;
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
