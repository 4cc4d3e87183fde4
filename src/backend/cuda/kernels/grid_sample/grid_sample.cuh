// Sampling: each thread has a point and some channels. What depends on the point alone is computed once for all of them.
__device__ __forceinline__ f32 sample_weight_near(f32 x) { return ((-0.75f + 2) * x - (-0.75f + 3)) * x * x + 1; }
__device__ __forceinline__ f32 sample_weight_far(f32 x) { return ((-0.75f * x - 5 * -0.75f) * x + 8 * -0.75f) * x - 4 * -0.75f; }
// The place that is read for one outside; with zeros it stays there.
template <int Outside, bool Corners>
__device__ __forceinline__ f32 sample_inside(f32 at, f32 n) {
  const f32 last = n - 1;
  if (Outside == sample_reflection) {
    const f32 edge = Corners ? 0.0f : -0.5f, span = Corners ? fmaxf(last, 1.0f) : n;
    at = fabsf(at - edge);
    const f32 turns = floorf(at / span), rest = fmodf(at, span);
    at = (fmodf(turns, 2.0f) == 0 ? rest : span - rest) + edge;
  }
  return Outside == sample_zeros ? at : at < 0 ? 0.0f : at > last ? last : at;
}
// The elements of an axis around a place, four if cubic, else two: offsets, weights, and whether they are inside.
template <bool Cubic, int Outside, bool Corners>
struct SampleTaps {
  static constexpr int count = Cubic ? 4 : 2;
  i64 offset[count];
  f32 weight[count];
  bool inside[count];
  __device__ __forceinline__ SampleTaps(f32 place, i64 size, i64 step) {
    const f32 n = (f32)size, last = n - 1;
    f32 at = Corners ? (place + 1) * (n * 0.5f - 0.5f) : (place + 1) * (n * 0.5f) - 0.5f;
    if (!Cubic) at = sample_inside<Outside, Corners>(at, n);
    const f32 low = floorf(at), t = at - low;
    if (Cubic) {
      weight[0] = sample_weight_far(t + 1);
      weight[1] = sample_weight_near(t);
      weight[count - 2] = sample_weight_near(1 - t);
      weight[count - 1] = sample_weight_far(2 - t);
    } else {
      weight[0] = low + 1 - at;
      weight[1] = t;
    }
#pragma unroll
    for (int k = 0; k < count; ++k) {
      f32 whole = low + (f32)(Cubic ? k - 1 : k);
      if (Cubic) whole = sample_inside<Outside, Corners>(whole, n);
      inside[k] = whole >= 0 && whole <= last;
      offset[k] = inside[k] ? (i64)whole * step : (i64)0;
    }
  }
};
// Adds up what the point reads of V channels, which are neighbours in memory if V > 1.
template <int V, class Taps, class M>
__device__ __forceinline__ void sample_channels(const M* x, const Taps& rows, const Taps& columns, f32* sum) {
#pragma unroll
  for (int v = 0; v < V; ++v) sum[v] = 0;
#pragma unroll
  for (int i = 0; i < Taps::count; ++i) {
    f32 line[V];
#pragma unroll
    for (int v = 0; v < V; ++v) line[v] = 0;
#pragma unroll
    for (int j = 0; j < Taps::count; ++j) {
      alignas(16) M taken[V];
#pragma unroll
      for (int v = 0; v < V; ++v) put(taken[v], 0.0f);
      if (rows.inside[i] && columns.inside[j]) read<V>(taken, x + rows.offset[i] + columns.offset[j]);
#pragma unroll
      for (int v = 0; v < V; ++v) line[v] += value(taken[v]) * columns.weight[j];
    }
#pragma unroll
    for (int v = 0; v < V; ++v) sum[v] += line[v] * rows.weight[i];
  }
}
// Neighbouring threads have neighbouring points (V = 1), or groups of V channels of a point.
template <class M, bool Cubic, int Outside, bool Corners, int V>
__device__ __forceinline__ void grid_sample(const SampleCudaParameters& p) {
  const i64 n = (i64)blockIdx.x * sample_threads + threadIdx.x, inner = V > 1 ? p.shares : p.points;
  if (n >= p.points * p.shares) return;
  const i64 outer = (n | inner) >> 32 == 0 ? (i64)((u32)n / (u32)inner) : n / inner, point = V > 1 ? outer : n - outer * inner, share = V > 1 ? n - outer * inner : outer;
  i64 offset[3] = {0, 0, 0};
  walk(p.axes, point, offset);
  const f32* grid = (const f32*)p.grid + offset[1];
  const SampleTaps<Cubic, Outside, Corners> columns(grid[0], p.size[1], p.step[1]), rows(grid[p.grid_step], p.size[0], p.step[0]);
  const M* x = (const M*)p.x + offset[0];
  M* to = (M*)p.to + offset[2];
  const i64 first = share * p.channels_of_share;
  i64 end = first + p.channels_of_share;
  if (end > p.channels) end = p.channels;
  for (i64 c = first; c < end; c += V) {
    f32 sum[V];
    sample_channels<V>(x + c * p.channel_step, rows, columns, sum);
#pragma unroll
    for (int v = 0; v < V; ++v) put(to[(c + v) * p.to_channel_step], sum[v]);
  }
}
