// Rows of x in an order, combined segment by segment.
template <class M> struct SumOf { typedef f32 Type; };
template <> struct SumOf<f64> { typedef f64 Type; };
template <int Kind, class T>
__device__ __forceinline__ T joined(T a, T b) {
  if (Kind == combine_sum) return a + b;
  if (Kind == combine_prod) return a * b;
  return a != a || (Kind == combine_max ? a > b : a < b) ? a : b;  // NaN stays
}
template <class M, int Vector>
struct alignas(Vector * sizeof(M)) RowPart {
  M m[Vector];
};
// What a group of threads has: segment or part `item`, of which this thread has Vector elements.
template <class M, int Vector, int Kind>
struct SegmentGroup {
  typedef typename SumOf<M>::Type T;
  const SegmentsCudaParameters& p;
  i64 item, element, at[2];
  T total[Vector];
  __device__ __forceinline__ SegmentGroup(const SegmentsCudaParameters& parameters) : p(parameters) {
    const i64 group = ((i64)blockIdx.x * segments_threads + threadIdx.x) / p.group;
    item = group / p.groups;
    element = ((group - item * p.groups) * p.group + threadIdx.x % p.group) * Vector;
    at[0] = at[1] = 0;
    if (Vector > 1) {
      at[0] = at[1] = element;
    } else if (element < p.elements) {
      walk(p.element_axes, element, at);
    }
#pragma unroll
    for (int i = 0; i < Vector; ++i) {
      neutral<Kind>(total[i]);
      if (Kind == combine_sum) total[i] = 0;
    }
  }
  __device__ __forceinline__ i64 end_of(i64 segment) const { return ((const i64*)p.ends)[segment * p.ends_step]; }
  __device__ __forceinline__ i64 begin_of(i64 segment) const { return segment == 0 ? 0 : end_of(segment - 1); }
  // The segment that has this place of the order; p.segments: none.
  __device__ __forceinline__ i64 segment_at(i64 place) const {
    i64 low = 0, high = p.segments;
    while (low < high) {
      const i64 middle = (low + high) / 2;
      if (end_of(middle) > place) high = middle; else low = middle + 1;
    }
    return low;
  }
  __device__ __forceinline__ bool is_long(i64 segment) const { return end_of(segment) - begin_of(segment) > segment_part; }
  __device__ __forceinline__ const RowPart<M, Vector>* row(i64 place) const {
    const i64 from = ((const i64*)p.order)[place * p.order_step];
    if ((u64)from >= (u64)p.rows) {
      report((u64*)p.status, 1, from, p.rows);
      return nullptr;
    }
    return (const RowPart<M, Vector>*)((const M*)p.x + from * p.x_row + at[0]);
  }
  __device__ __forceinline__ void combine(const RowPart<M, Vector>& part) {
#pragma unroll
    for (int i = 0; i < Vector; ++i) total[i] = joined<Kind>(total[i], (T)value(part.m[i]));
  }
  // Places of the order, one after another. Several rows are waited for together.
  __device__ __forceinline__ void combine_places(i64 place, i64 end) {
    constexpr int together = 4;
    for (; place + together <= end; place += together) {
      const RowPart<M, Vector>* from[together];
      RowPart<M, Vector> part[together];
#pragma unroll
      for (int k = 0; k < together; ++k) from[k] = row(place + k);
#pragma unroll
      for (int k = 0; k < together; ++k) {
        if (from[k] != nullptr) part[k] = *from[k];
      }
#pragma unroll
      for (int k = 0; k < together; ++k) {
        if (from[k] != nullptr) combine(part[k]);
      }
    }
    for (; place < end; ++place) {
      const RowPart<M, Vector>* const from = row(place);
      if (from != nullptr) combine(*from);
    }
  }
  __device__ __forceinline__ void store(i64 segment) const {
    RowPart<M, Vector> out;
#pragma unroll
    for (int i = 0; i < Vector; ++i) put_number(out.m[i], (f64)total[i]);
    *(RowPart<M, Vector>*)((M*)p.out + segment * p.out_row + at[1]) = out;
  }
  __device__ __forceinline__ T* part(i64 number, int which) const { return (T*)p.parts + (number * 2 + which) * p.elements + element; }
};
template <class M, int Vector, int Kind>
__device__ __forceinline__ void reduce_segments(const SegmentsCudaParameters& p) {
  SegmentGroup<M, Vector, Kind> group(p);
  if (group.item >= p.segments || group.element >= p.elements) return;
  const i64 begin = group.begin_of(group.item), end = group.end_of(group.item);
  if (end - begin > segment_part) return;
  group.combine_places(begin, end);
  group.store(group.item);
}
// Part `item` of the order: of the long segment that it begins with, and of the one that it ends with.
template <class M, int Vector, int Kind>
__device__ __forceinline__ void reduce_parts(const SegmentsCudaParameters& p) {
  SegmentGroup<M, Vector, Kind> group(p);
  const i64 first = group.item * segment_part;
  if (first >= p.count || group.element >= p.elements) return;
  const i64 last = first + segment_part < p.count ? first + segment_part : p.count;
  i64 before = -1;
  for (int which = 0; which < 2; ++which) {
    const i64 segment = group.segment_at(which == 0 ? first : last - 1);
    if (segment == before || segment == p.segments) return;
    before = segment;
    if (!group.is_long(segment)) continue;
    const i64 begin = group.begin_of(segment), end = group.end_of(segment);
    SegmentGroup<M, Vector, Kind> own(p);
    own.combine_places(begin > first ? begin : first, end < last ? end : last);
#pragma unroll
    for (int i = 0; i < Vector; ++i) own.part(group.item, which)[i] = own.total[i];
  }
}
template <class M, int Vector, int Kind>
__device__ __forceinline__ void join_parts(const SegmentsCudaParameters& p) {
  SegmentGroup<M, Vector, Kind> group(p);
  if (group.item >= p.segments || group.element >= p.elements || !group.is_long(group.item)) return;
  const i64 begin = group.begin_of(group.item), first = begin / segment_part, last = (group.end_of(group.item) - 1) / segment_part;
#pragma unroll 4
  for (i64 number = first; number <= last; ++number) {
    const typename SumOf<M>::Type* const part = group.part(number, number == first && begin > first * segment_part ? 1 : 0);
#pragma unroll
    for (int i = 0; i < Vector; ++i) group.total[i] = joined<Kind>(group.total[i], part[i]);
  }
  group.store(group.item);
}
