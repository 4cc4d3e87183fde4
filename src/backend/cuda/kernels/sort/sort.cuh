// Keys: unsigned numbers in the elements' order. Zeros of both signs are equal. All NaN are equal and larger than any number.
template <int Bytes> struct KeyOf { typedef u32 Type; };
template <> struct KeyOf<8> { typedef u64 Type; };
__device__ __forceinline__ u32 key_of(f32 x) {
  u32 bits = (u32)__float_as_int(x == 0 ? 0.0f : x);
  return x != x ? 0xffffffffu : bits ^ ((bits >> 31) != 0 ? 0xffffffffu : 0x80000000u);
}
__device__ __forceinline__ u64 key_of(f64 x) {
  u64 bits = (u64)__double_as_longlong(x == 0 ? 0.0 : x);
  return x != x ? 0xffffffffffffffffull : bits ^ ((bits >> 63) != 0 ? 0xffffffffffffffffull : 0x8000000000000000ull);
}
__device__ __forceinline__ u32 key_of(int x) { return (u32)x ^ 0x80000000u; }
__device__ __forceinline__ u32 key_of(bool x) { return x; }
__device__ __forceinline__ u64 key_of(i64 x) { return (u64)x ^ 0x8000000000000000ull; }
struct Elements {
  template <class M> static __device__ __forceinline__ typename KeyOf<sizeof(M)>::Type key(M m) { return key_of(value(m)); }
};
struct Ready {
  static __device__ __forceinline__ u64 key(u64 m) { return m; }
};

// An array in shared memory, padded so that threads whose elements are a power of 2 apart use different banks.
template <class K>
struct Padded {
  static constexpr int every = 128 / (int)sizeof(K);
  K* all;
  int first;
  static constexpr int room(int n) { return n + n / every; }
  __device__ __forceinline__ K& operator[](int i) const { return all[first + i + (first + i) / every]; }
  __device__ __forceinline__ Padded operator+(int n) const { return {all, first + n}; }
};

// How many of the first `diagonal` elements of a merge come from `a`; of equal elements, those of `a` come first.
template <class A, class N>
__device__ __forceinline__ N merged_from(A a, N a_count, A b, N b_count, N diagonal) {
  N low = diagonal > b_count ? diagonal - b_count : 0, high = diagonal < a_count ? diagonal : a_count;
  while (low < high) {
    N middle = (low + high) / 2;
    if (b[diagonal - 1 - middle] < a[middle]) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}
// The same by a warp, in memory: 32 places are looked at in each turn.
template <class K>
__device__ __forceinline__ i64 merged_from_by_warp(const K* a, i64 a_count, const K* b, i64 b_count, i64 diagonal) {
  i64 low = diagonal > b_count ? diagonal - b_count : 0, high = diagonal < a_count ? diagonal : a_count;
  while (low < high) {
    const i64 step = (high - low + 31) / 32, at = low + (i64)(threadIdx.x % 32) * step;
    const u32 behind = __ballot_sync(0xffffffffu, at >= high || b[diagonal - 1 - at] < a[at]);
    const int first = behind == 0 ? 32 : __ffs((int)behind) - 1;  // the first place that is after the result, or the result
    const i64 end = low + first * step;
    if (first > 0) low = end - step + 1;
    if (end < high) high = end;
  }
  return low;
}
// Merges Items elements from (i, j) on.
template <int Items, class K>
__device__ __forceinline__ void merge_some(Padded<K> keys, Padded<u32> order, int i, int i_end, int j, int j_end, K* key, u32* position) {
#pragma unroll
  for (int k = 0; k < Items; ++k) {
    bool second = i >= i_end || (j < j_end && keys[j] < keys[i]);
    int from = second ? j : i;
    bool there = i < i_end || j < j_end;
    key[k] = there ? keys[from] : K(0);
    position[k] = there ? order[from] : 0;
    if (second) ++j; else ++i;
  }
}
// Sorts the tile's keys and positions in shared memory. Places past the tile's end have the largest key and stay last.
template <int Threads, int Items, class K>
__device__ __forceinline__ void sort_tile_of(Padded<K> keys, Padded<u32> order) {
  const int first = threadIdx.x * Items;
  K key[Items];
  u32 position[Items];
#pragma unroll
  for (int k = 0; k < Items; ++k) {
    key[k] = keys[first + k];
    position[k] = order[first + k];
  }
#pragma unroll
  for (int round = 0; round < Items; ++round) {
#pragma unroll
    for (int k = round % 2; k + 1 < Items; k += 2) {
      if (key[k + 1] < key[k]) {
        K lower = key[k + 1];
        key[k + 1] = key[k];
        key[k] = lower;
        u32 p = position[k + 1];
        position[k + 1] = position[k];
        position[k] = p;
      }
    }
  }
  for (int width = Items; width < Threads * Items; width *= 2) {
    __syncthreads();
#pragma unroll
    for (int k = 0; k < Items; ++k) {
      keys[first + k] = key[k];
      order[first + k] = position[k];
    }
    __syncthreads();
    const int start = first & ~(2 * width - 1), diagonal = first - start, middle = start + width;
    const int i = merged_from(keys + start, width, keys + middle, width, diagonal);
    merge_some<Items>(keys, order, start + i, middle, middle + diagonal - i, middle + width, key, position);
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < Items; ++k) {
    keys[first + k] = key[k];
    order[first + k] = position[k];
  }
  __syncthreads();
}
template <int Threads, int Items, class From, class M, class K>
__device__ __forceinline__ void load_tile(const SortCudaParameters& p, const M* in, i64 first, Padded<K> keys, Padded<u32> order) {
#pragma unroll
  for (int k = 0; k < Items; ++k) {
    int at = k * Threads + threadIdx.x;
    i64 i = first + at;
    K key = ~K(0);
    if (i < p.length) {
      key = From::key(in[i * p.in_step]);
      if (p.descending) key = ~key;
    }
    keys[at] = key;
    order[at] = (u32)i;
  }
  __syncthreads();
}
// Sorts a line of one tile.
template <int Threads, int Items, class M>
__device__ __forceinline__ void sort_a_line(const SortCudaParameters& p) {
  typedef typename KeyOf<sizeof(M)>::Type K;
  __shared__ K all_keys[Padded<K>::room(Threads * Items)];
  __shared__ u32 all_order[Padded<u32>::room(Threads * Items)];
  const Padded<K> keys{all_keys, 0};
  const Padded<u32> order{all_order, 0};
  i64 at[3] = {0, 0, 0};
  walk(p.axes, (i64)blockIdx.x, at);
  const M* in = (const M*)p.in + at[0];
  load_tile<Threads, Items, Elements>(p, in, 0, keys, order);
  sort_tile_of<Threads, Items>(keys, order);
  M* values = (M*)p.values + at[1];
  i64* indices = (i64*)p.indices + at[2];
  for (int k = threadIdx.x; k < p.k; k += Threads) {
    values[k * p.values_step] = in[order[k] * p.in_step];
    indices[k * p.indices_step] = order[k];
  }
}
// Sorts one tile of a line; keeps its first k.
template <class From, class M>
__device__ __forceinline__ void sort_a_tile(const SortCudaParameters& p) {
  typedef typename KeyOf<sizeof(M)>::Type K;
  __shared__ K all_keys[Padded<K>::room(sort_threads * sort_items)];
  __shared__ u32 all_order[Padded<u32>::room(sort_threads * sort_items)];
  const Padded<K> keys{all_keys, 0};
  const Padded<u32> order{all_order, 0};
  const i64 line = blockIdx.x / p.tiles, tile = blockIdx.x % p.tiles;
  i64 at[3] = {0, 0, 0};
  walk(p.axes, line, at);
  const i64 first = tile * sort_threads * sort_items;
  load_tile<sort_threads, sort_items, From>(p, (const M*)p.in + at[0], first, keys, order);
  sort_tile_of<sort_threads, sort_items>(keys, order);
  const i64 left = p.length - first, count = left < p.capacity ? left : p.capacity, to = line * p.room + tile * p.capacity;
  for (int k = threadIdx.x; k < count; k += sort_threads) {
    ((K*)p.keys_to)[to + k] = keys[k];
    ((u32*)p.order_to)[to + k] = order[k];
  }
}
// Merges one tile of two adjacent runs.
template <class K>
__device__ __forceinline__ void merge_runs(const SortCudaParameters& p) {
  constexpr int tile = sort_threads * sort_items;
  __shared__ K all_keys[Padded<K>::room(tile)];
  __shared__ u32 all_order[Padded<u32>::room(tile)];
  const Padded<K> keys{all_keys, 0};
  const Padded<u32> order{all_order, 0};
  __shared__ i64 from[2];
  const i64 pairs = (p.runs + 1) / 2, number = blockIdx.x % p.blocks, pair = blockIdx.x / p.blocks % pairs, line = blockIdx.x / p.blocks / pairs;
  const i64 a_run = 2 * pair, b_run = a_run + 1;
  const i64 a_count = a_run + 1 == p.runs ? p.last : p.capacity, b_count = b_run >= p.runs ? 0 : b_run + 1 == p.runs ? p.last : p.capacity;
  const K* a = (const K*)p.keys + line * p.room + a_run * p.capacity;
  const u32* a_order = (const u32*)p.order + line * p.room + a_run * p.capacity;
  const K* b = a + p.capacity;
  const u32* b_order = a_order + p.capacity;
  i64 count = a_count + b_count;
  if (count > p.capacity_to) count = p.capacity_to;
  const i64 begin = number * tile, end = begin + tile < count ? begin + tile : count;
  if (begin >= count) return;
  if (threadIdx.x < 64) {
    const i64 place = merged_from_by_warp(a, a_count, b, b_count, threadIdx.x < 32 ? begin : end);
    if (threadIdx.x % 32 == 0) from[threadIdx.x / 32] = place;
  }
  __syncthreads();
  const int n = (int)(end - begin), i_end = (int)(from[1] - from[0]);
  const i64 a_first = from[0], b_first = begin - from[0];
  for (int k = threadIdx.x; k < n; k += sort_threads) {
    keys[k] = k < i_end ? a[a_first + k] : b[b_first + k - i_end];
    order[k] = k < i_end ? a_order[a_first + k] : b_order[b_first + k - i_end];
  }
  __syncthreads();
  const int diagonal = threadIdx.x * sort_items < n ? threadIdx.x * sort_items : n;
  const int i = merged_from(keys, i_end, keys + i_end, n - i_end, diagonal);
  K key[sort_items];
  u32 position[sort_items];
  merge_some<sort_items>(keys, order, i, i_end, i_end + diagonal - i, n, key, position);
  __syncthreads();
#pragma unroll
  for (int k = 0; k < sort_items; ++k) {
    if (diagonal + k < n) {
      keys[diagonal + k] = key[k];
      order[diagonal + k] = position[k];
    }
  }
  __syncthreads();
  const i64 to = line * p.room + pair * p.capacity_to + begin;
  for (int k = threadIdx.x; k < n; k += sort_threads) {
    ((K*)p.keys_to)[to + k] = keys[k];
    ((u32*)p.order_to)[to + k] = order[k];
  }
}
template <class M>
__device__ __forceinline__ void take_in_order(const SortCudaParameters& p) {
  const i64 n = (i64)blockIdx.x * sort_threads + threadIdx.x, line = n / p.k, k = n - line * p.k;
  if (line >= p.lines) return;
  i64 at[3] = {0, 0, 0};
  walk(p.axes, line, at);
  const u32 from = ((const u32*)p.order)[line * p.room + k];
  ((M*)p.values)[at[1] + k * p.values_step] = ((const M*)p.in)[at[0] + from * p.in_step];
  ((i64*)p.indices)[at[2] + k * p.indices_step] = from;
}
