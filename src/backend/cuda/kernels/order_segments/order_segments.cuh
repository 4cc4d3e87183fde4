// The places of an index, stably in the order of their segments.
constexpr i32 no_segment = 0x7fffffff;  // of an index that is outside
__device__ __forceinline__ i32 segment_of(const OrderSegmentsParameters& p, i64 index) {
  const i64 segment = p.wrap && index < 0 ? index + p.segments : index;
  if ((u64)segment < (u64)p.segments) return (i32)segment;
  report((u64*)p.status, 1, index, p.segments);
  return no_segment;
}
// What the threads of a block have together. `before`: what those before this one have.
__device__ __forceinline__ u32 sum_of_block(u32 own, u32& before) {
  __shared__ u32 of_warps[order_threads / 32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  u32 sum = own;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const u32 lower = __shfl_up_sync(0xffffffffu, sum, (u32)step);
    if (lane >= step) sum += lower;
  }
  if (lane == 31) of_warps[warp] = sum;
  __syncthreads();
  u32 all = 0;
  before = sum - own;
  for (int k = 0; k < order_threads / 32; ++k) {
    if (k < warp) before += of_warps[k];
    all += of_warps[k];
  }
  __syncthreads();
  return all;
}
// Sorts elements of a block stably by keys from 0 to `keys` - 1. Each warp has a stretch of them: it counts how many have each key, and puts them behind those of the warps before.
// Source: read(i) of element i, and the key of what was read; others are left out. Reads of several elements come before the first key, whose error would keep the next read waiting.
template <class Source>
struct ByKeys {
  typedef typename Source::Read Read;
  const Source& source;
  u32* counts;  // [warps][keys], in shared memory
  u32 keys;
  i64 begin, end;  // of the warp
  static constexpr int together = 16;  // reads that a thread waits for
  static constexpr u32 warps = order_threads / 32;
  __device__ __forceinline__ ByKeys(const Source& from, u32* room, u32 of_keys, i64 first, i64 last) : source(from), counts(room), keys(of_keys) {
    const i64 stretch = ((last - first + warps - 1) / warps + 31) / 32 * 32;
    begin = first + threadIdx.x / 32 * stretch;
    end = begin + stretch < last ? begin + stretch : last;
  }
  __device__ __forceinline__ u32* own() const { return counts + threadIdx.x / 32 * keys; }
  // use(i, read, key) for the warp's elements in turn, by all lanes together.
  template <class Use>
  __device__ __forceinline__ void each(Use use) const {
    const int lane = threadIdx.x % 32;
    for (i64 at = begin; at < end; at += 32 * together) {
      Read read[together];
#pragma unroll
      for (int k = 0; k < together; ++k) read[k] = at + k * 32 + lane < end ? source.read(at + k * 32 + lane) : Read(0);
#pragma unroll
      for (int k = 0; k < together; ++k) {
        const i64 i = at + k * 32 + lane;
        if (at + k * 32 < end) use(i, read[k], i < end ? source.key(read[k]) : no_segment);
      }
    }
  }
  // Returns how many elements of this thread have a key below 0.
  __device__ __forceinline__ u32 count() const {
    for (u32 k = threadIdx.x; k < warps * keys; k += order_threads) counts[k] = 0;
    __syncthreads();
    u32 lower = 0;
    each([&](i64, Read, i32 key) {
      if ((u32)key < keys) atomicAdd(own() + key, 1u);
      if (key < 0) ++lower;
    });
    __syncthreads();
    return lower;
  }
  // How many have key `threadIdx.x`.
  __device__ __forceinline__ u32 total() const {
    u32 sum = 0;
    for (u32 warp = 0; threadIdx.x < keys && warp < warps; ++warp) sum += counts[warp * keys + threadIdx.x];
    return sum;
  }
  // put(place, i, read) for each element. `first`: the place of the first one with key `threadIdx.x`.
  template <class Put>
  __device__ __forceinline__ void place(u32 first, Put put) const {
    for (u32 warp = 0; threadIdx.x < keys && warp < warps; ++warp) {
      const u32 count = counts[warp * keys + threadIdx.x];
      counts[warp * keys + threadIdx.x] = first;
      first += count;
    }
    __syncthreads();
    const int lane = threadIdx.x % 32;
    each([&](i64 i, Read read, i32 key) {
      const bool is_mine = (u32)key < keys;
      if (__ballot_sync(0xffffffffu, is_mine) == 0) return;
      const u32 alike = __match_any_sync(0xffffffffu, is_mine ? (u32)key : ~0u);
      const int leader = __ffs((int)alike) - 1;
      u32 to = 0;
      if (is_mine && lane == leader) {
        to = own()[key];
        own()[key] = to + (u32)__popc(alike);
      }
      to = __shfl_sync(0xffffffffu, to, (u32)leader) + (u32)__popc(alike & ((1u << lane) - 1));
      __syncwarp();
      if (is_mine) put(to, i, read);
    });
    __syncthreads();
  }
};
// Segments from `first` on.
template <class Places>
struct FromFirst {
  typedef typename Places::Read Read;
  const Places& places;
  i32 first;
  __device__ __forceinline__ Read read(i64 i) const { return places.read(i); }
  __device__ __forceinline__ i32 key(Read read) const { return places.segment(read) - first; }
};
// Writes the order of some segments and their ends. Places: of elements `begin` to `end` - 1 what is read(i), the segment of it, and the place(i). `offset`: elements of segments before all of these.
template <class Places>
__device__ __forceinline__ void order_some(const OrderSegmentsParameters& p, const Places& places, i64 begin, i64 end, u32 offset, i64 first, i64 last) {
  __shared__ u32 counts[order_threads / 32 * order_keys];
  for (; first < last; first += order_keys) {
    const FromFirst<Places> source{places, (i32)first};
    const ByKeys<FromFirst<Places>> sorted(source, counts, (u32)(first + order_keys < last ? order_keys : last - first), begin, end);
    u32 before, ignored;
    const u32 lower = sum_of_block(sorted.count(), ignored), own = sorted.total();
    sum_of_block(own, before);
    const u32 from = offset + lower + before;
    if (threadIdx.x < sorted.keys) ((i64*)p.ends)[(first + threadIdx.x) * p.ends_step] = from + own;
    sorted.place(from, [&](u32 to, i64 i, typename Places::Read) { ((i64*)p.order)[to * p.order_step] = places.place(i); });
  }
}
struct AllPlaces {
  typedef i64 Read;
  const OrderSegmentsParameters& p;
  __device__ __forceinline__ i64 read(i64 i) const { return ((const i64*)p.index)[i * p.index_step]; }
  __device__ __forceinline__ i32 segment(i64 index) const { return segment_of(p, index); }
  __device__ __forceinline__ i64 place(i64 i) const { return i; }
};
// Each block reads the whole index, and has some segments.
__device__ __forceinline__ void order_at_once(const OrderSegmentsParameters& p) {
  const i64 first = blockIdx.x * p.of_block, last = first + p.of_block < p.segments ? first + p.of_block : p.segments;
  order_some(p, AllPlaces{p}, 0, p.count, 0, first, last);
}
// Buckets of neighbouring segments, for a tile of the index.
struct Buckets {
  typedef i64 Read;
  const OrderSegmentsParameters& p;
  __device__ __forceinline__ i64 read(i64 i) const { return ((const i64*)p.index)[i * p.index_step]; }
  __device__ __forceinline__ i32 key(i64 index) const {
    const i32 segment = segment_of(p, index);
    return segment == no_segment ? no_segment : segment >> p.bucket_bits;
  }
};
__device__ __forceinline__ i64 end_of_tile(const OrderSegmentsParameters& p) {
  const i64 end = (blockIdx.x + 1ll) * p.tile;
  return end < p.count ? end : p.count;
}
// How many places of each tile are in each bucket.
__device__ __forceinline__ void count_buckets(const OrderSegmentsParameters& p) {
  __shared__ u32 counts[order_keys];
  for (u32 k = threadIdx.x; k < order_keys; k += order_threads) counts[k] = 0;
  __syncthreads();
  const Buckets buckets{p};
  const i64 end = end_of_tile(p);
  constexpr int together = 8;
  for (i64 at = blockIdx.x * p.tile + threadIdx.x; at < end; at += together * order_threads) {
    i64 index[together];
#pragma unroll
    for (int k = 0; k < together; ++k) index[k] = at + k * order_threads < end ? buckets.read(at + k * order_threads) : 0;
#pragma unroll
    for (int k = 0; k < together; ++k) {
      if (at + k * order_threads >= end) continue;
      const i32 bucket = buckets.key(index[k]);
      if (bucket != no_segment) atomicAdd(counts + bucket, 1u);
    }
  }
  __syncthreads();
  for (u32 k = threadIdx.x; k < p.buckets; k += order_threads) ((u32*)p.counts)[blockIdx.x * p.buckets + k] = counts[k];
}
// Puts the places of a tile into their buckets, behind those of the tiles before.
__device__ __forceinline__ void split_in_buckets(const OrderSegmentsParameters& p) {
  __shared__ u32 counts[order_threads / 32 * order_keys], earlier[order_keys], all[order_keys];
  const u32 bucket = threadIdx.x % order_keys;
  for (u32 k = threadIdx.x; k < order_keys; k += order_threads) earlier[k] = all[k] = 0;
  __syncthreads();
  if (bucket < p.buckets) {
    u32 of_earlier = 0, of_all = 0;
#pragma unroll 4
    for (i64 tile = threadIdx.x / order_keys; tile < p.tiles; tile += order_threads / order_keys) {
      const u32 count = ((const u32*)p.counts)[tile * p.buckets + bucket];
      of_all += count;
      if (tile < blockIdx.x) of_earlier += count;
    }
    atomicAdd(earlier + bucket, of_earlier);
    atomicAdd(all + bucket, of_all);
  }
  __syncthreads();
  const u32 own = threadIdx.x < p.buckets ? all[threadIdx.x] : 0;
  u32 before;
  sum_of_block(own, before);
  if (blockIdx.x == 0 && threadIdx.x < p.buckets) ((u32*)p.bucket_ends)[threadIdx.x] = before + own;
  const Buckets source{p};
  const ByKeys<Buckets> sorted(source, counts, (u32)p.buckets, blockIdx.x * p.tile, end_of_tile(p));
  sorted.count();
  sorted.place(threadIdx.x < p.buckets ? before + earlier[threadIdx.x] : 0, [&](u32 to, i64 i, i64 index) {
    ((u32*)p.places)[to] = (u32)i;
    ((i32*)p.segments_of)[to] = segment_of(p, index);
  });
}
struct PlacesOfBucket {
  typedef i32 Read;
  const OrderSegmentsParameters& p;
  __device__ __forceinline__ i32 read(i64 i) const { return ((const i32*)p.segments_of)[i]; }
  __device__ __forceinline__ i32 segment(i32 segment) const { return segment; }
  __device__ __forceinline__ i64 place(i64 i) const { return ((const u32*)p.places)[i]; }
};
// Each block has a bucket.
__device__ __forceinline__ void order_buckets(const OrderSegmentsParameters& p) {
  const u32 begin = blockIdx.x == 0 ? 0 : ((const u32*)p.bucket_ends)[blockIdx.x - 1], end = ((const u32*)p.bucket_ends)[blockIdx.x];
  const i64 first = (i64)blockIdx.x << p.bucket_bits, last = (i64)(blockIdx.x + 1) << p.bucket_bits;
  order_some(p, PlacesOfBucket{p}, begin, end, begin, first, last < p.segments ? last : p.segments);
}
