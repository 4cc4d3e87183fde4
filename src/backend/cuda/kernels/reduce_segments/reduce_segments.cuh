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
// The weights of a row: none, one for all elements of a load, or one for each.
enum RowWeights { no_weights, weight_of_load, weight_of_element };
// What a group of threads has: part or segment `item`, of which this thread has Vector elements.
template <class M, int Vector, int Kind, int Weights>
struct SegmentGroup {
  typedef typename SumOf<M>::Type T;
  typedef RowPart<M, Vector> Part;
  typedef RowPart<M, Weights == weight_of_element ? Vector : 1> Weight;
  const SegmentsCudaParameters& p;
  i64 item, element, at[3], at_weight[1];  // at: of x, the result and the base
  T total[Vector];
  __device__ __forceinline__ SegmentGroup(const SegmentsCudaParameters& parameters) : p(parameters) {
    const i64 group = ((i64)blockIdx.x * segments_threads + threadIdx.x) / p.group;
    item = group / p.groups;
    element = ((group - item * p.groups) * p.group + threadIdx.x % p.group) * Vector;
    at[0] = at[1] = at[2] = at_weight[0] = 0;
    if (Vector > 1) {
      at[0] = at[1] = at[2] = element;
    } else if (element < p.elements) {
      walk(p.element_axes, element, at);
    }
    if (Weights != no_weights && element < p.elements) walk(p.weight_axes, element, at_weight);
  }
  __device__ __forceinline__ void begin() {
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
  static constexpr u32 no_row = ~0u;
  // A row that an order names. One that is not below `bound` is none, and kept in `outside`.
  __device__ __forceinline__ u32 row_of(i64 named, i64 bound, i64& outside) const {
    const bool inside = (u64)named < (u64)bound;
    outside = inside ? outside : named;
    return inside ? (u32)named : no_row;
  }
  __device__ __forceinline__ void combine(const Part& part, const Weight& weight) {
#pragma unroll
    for (int i = 0; i < Vector; ++i) {
      T x = (T)value(part.m[i]);
      if (Weights != no_weights) x *= (T)value(weight.m[Weights == weight_of_element ? i : 0]);
      total[i] = joined<Kind>(total[i], x);
    }
  }
  // Places of the order, one after another. Several rows are waited for together.
  __device__ __forceinline__ void combine_places(i64 place, i64 end) {
    constexpr int together = Weights == weight_of_element ? 4 : 8;
    const i64 *order = (const i64*)p.order + place * p.order_step, *weight_order = (const i64*)p.weight_order + place * p.weight_order_step;
    i64 outside = 0, weight_outside = 0;  // a row 0 is inside, or there are none
    for (int left = (int)(end - place); left > 0; left -= together, order += together * p.order_step, weight_order += together * p.weight_order_step) {
      i64 named[together], weight_named[together];  // the last place again behind the others: reads without a condition overlap
      u32 rows[together], weight_rows[together];
      Part part[together];
      Weight weight[together];
#pragma unroll
      for (int k = 0; k < together; ++k) {
        const int at = k < left ? k : left - 1;
        named[k] = order[at * p.order_step];
        if (Weights != no_weights) weight_named[k] = weight_order[at * p.weight_order_step];
      }
#pragma unroll
      for (int k = 0; k < together; ++k) {
        rows[k] = row_of(named[k], p.rows, outside);
        if (Weights != no_weights) weight_rows[k] = row_of(weight_named[k], p.weight_rows, weight_outside);
        if (k >= left || (Weights != no_weights && weight_rows[k] == no_row)) rows[k] = no_row;
      }
#pragma unroll
      for (int k = 0; k < together; ++k) {
        if (rows[k] == no_row) continue;
        part[k] = *(const Part*)((const M*)p.x + rows[k] * p.x_row + at[0]);
        if (Weights != no_weights) weight[k] = *(const Weight*)((const M*)p.weights + weight_rows[k] * p.weight_row + at_weight[0]);
      }
#pragma unroll
      for (int k = 0; k < together; ++k) {
        if (rows[k] != no_row) combine(part[k], weight[k]);
      }
    }
    if (outside != 0) report((u64*)p.status, 1, outside, p.rows);
    if (weight_outside != 0) report((u64*)p.status, 1, weight_outside, p.weight_rows);
  }
  __device__ __forceinline__ void store(i64 segment) {
    if (p.base != 0) {
      const Part base = *(const Part*)((const M*)p.base + segment * p.base_row + at[2]);
#pragma unroll
      for (int i = 0; i < Vector; ++i) total[i] = joined<Kind>((T)value(base.m[i]), total[i]);
    }
    Part out;
#pragma unroll
    for (int i = 0; i < Vector; ++i) put_number(out.m[i], (f64)total[i]);
    *(Part*)((M*)p.out + segment * p.out_row + at[1]) = out;
  }
  __device__ __forceinline__ void keep(i64 number, int which) const {
#pragma unroll
    for (int i = 0; i < Vector; ++i) part(number, which)[i] = total[i];
  }
  __device__ __forceinline__ T* part(i64 number, int which) const { return (T*)p.parts + (number * 2 + which) * p.elements + element; }
};
// The parts of long segments: of the one that a part begins with, and of the one that it ends with; and segments that are no longer than a part.
template <class M, int Vector, int Kind, int Weights>
__device__ __forceinline__ void reduce_segments(const SegmentsCudaParameters& p) {
  SegmentGroup<M, Vector, Kind, Weights> group(p);
  if (group.element >= p.elements) return;
  const bool is_part = group.item < p.part_count;
  const i64 first = is_part ? group.item * segment_part : 0, last = is_part && first + segment_part < p.count ? first + segment_part : p.count;
#pragma unroll 1
  for (int which = 0; which < 2; ++which) {
    const i64 segment = !is_part ? group.item - p.part_count : group.segment_at(which == 0 ? first : last - 1);
    if (segment >= p.segments) return;
    const i64 begin = group.begin_of(segment), end = group.end_of(segment);
    if (end - begin > segment_part == is_part) {
      group.begin();
      group.combine_places(begin > first ? begin : first, end < last ? end : last);
      if (is_part) group.keep(group.item, which); else group.store(segment);
    }
    if (!is_part || end >= last) return;
  }
}
template <class M, int Vector, int Kind, int Weights>
__device__ __forceinline__ void join_parts(const SegmentsCudaParameters& p) {
  SegmentGroup<M, Vector, Kind, Weights> group(p);
  if (group.item >= p.segments || group.element >= p.elements || !group.is_long(group.item)) return;
  group.begin();
  const i64 begin = group.begin_of(group.item), first = begin / segment_part, last = (group.end_of(group.item) - 1) / segment_part;
#pragma unroll 4
  for (i64 number = first; number <= last; ++number) {
    const typename SumOf<M>::Type* const part = group.part(number, number == first && begin > first * segment_part ? 1 : 0);
#pragma unroll
    for (int i = 0; i < Vector; ++i) group.total[i] = joined<Kind>(group.total[i], part[i]);
  }
  group.store(group.item);
}
