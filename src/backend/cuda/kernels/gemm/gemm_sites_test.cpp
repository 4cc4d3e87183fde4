#include "backend/cuda/kernels/gemm/gemm_sites_test.h"

#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "backend/cuda/kernels/gpu_step_test.h"

namespace ingot::backend::cuda {

using ir::Dim;
using ir::DType;

namespace {

// The nearest TF32 number: 10 bits of mantissa.
double as_tf32(double x) {
  auto bits = std::bit_cast<uint32_t>(static_cast<float>(x));
  return std::isfinite(x) ? std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu) : x;
}

}  // namespace

StridedLayout layout_of(const HostTensor& t) { return {dims_of(t.dims), dims_of(t.strides), Dim(0)}; }

double at(const HostTensor& t, const std::vector<int64_t>& where) {
  int64_t element = t.offset;
  for (size_t d = 0; d < where.size(); ++d) {
    if (where[d] < 0 || where[d] >= t.dims[d]) return 0;
    element += where[d] * t.strides[d];
  }
  return t.get(static_cast<size_t>(element));
}

double GemmCase::multiplied(double x) const { return type == DType::f32 && !packed ? as_tf32(x) : x; }

double GemmCase::left(int64_t row, int64_t column) const {
  if (!map) return multiplied(at(a, {row, column}));
  std::vector<int64_t> index(map->dims.size());
  for (size_t i = index.size(); i-- > 0;) {
    int64_t& rest = i < m_rank ? row : column;
    index[i] = rest % map->dims[i].value();
    rest /= map->dims[i].value();
  }
  std::vector<int64_t> where;
  for (const auto& axis : map->axes) {
    int64_t v = axis.offset.value();
    for (const auto& t : axis.terms) v += t.coefficient * index[t.axis];
    where.push_back(v);
  }
  return multiplied(at(a, where));
}

GemmCase convolution(int64_t h, int64_t w, int64_t c, int64_t r, int64_t stride, int64_t pad, int64_t n, bool along_k, DType type) {
  int64_t oh = (h + 2 * pad - r) / stride + 1, ow = (w + 2 * pad - r) / stride + 1, m = 2 * oh * ow, k = r * r * c;
  ir::AffineMap map = windows_of(2, oh, ow, c, r, stride, pad);
  GemmCase s{fmt::format("convolution {}x{}x{} by {}, stride {}, {} columns{} of {}", h, w, c, r, stride, n, along_k ? ", B along K" : "", ir::name_of(type)),
             type,
             HostTensor(type, {2, h, w, c}),
             HostTensor(type, {k, n}, along_k ? std::vector<size_t>{1, 0} : std::vector<size_t>{}),
             map,
             3,
             m,
             n,
             k};
  return s;
}

GemmCase few_channels(const FewChannels& f) {
  const int64_t oh = (f.h + 2 * f.pad - f.r) / f.stride + 1, ow = (f.w + 2 * f.pad - f.s) / f.stride + 1, k = f.c * f.r * f.s;
  ir::AffineMap map{dims_of({f.batch, oh, ow, f.c, f.r, f.s}), {}, std::nullopt};
  map.axes = {{0, {{0, 1}}}, {0, {{3, 1}}}, {Dim(-f.pad), {{1, f.stride}, {4, 1}}}, {Dim(-f.pad), {{2, f.stride}, {5, 1}}}};
  GemmCase s{fmt::format("{} x {} x {} x {}{} by {} x {}, stride {}, {} columns{} of {}", f.batch, f.h, f.w, f.c, f.channels_last ? ", channels last," : "", f.r, f.s, f.stride,
                         f.n, f.along_k ? ", B along K" : "", ir::name_of(f.type)),
             f.type,
             HostTensor(f.type, {f.batch, f.c, f.h, f.w}, f.channels_last ? std::vector<size_t>{0, 2, 3, 1} : std::vector<size_t>{}),
             HostTensor(f.type, {k, f.n}, f.along_k ? std::vector<size_t>{1, 0} : std::vector<size_t>{}),
             map,
             3,
             f.batch * oh * ow,
             f.n,
             k};
  s.infinity = true;
  return s;
}

GemmCase plain(int64_t m, int64_t n, int64_t k, bool along_k, DType type) {
  return {fmt::format("{} x {} x {}{} of {}", m, n, k, along_k ? ", B along K" : "", ir::name_of(type)),
          type,
          HostTensor(type, {m, k}),
          HostTensor(type, {k, n}, along_k ? std::vector<size_t>{1, 0} : std::vector<size_t>{}),
          std::nullopt,
          1,
          m,
          n,
          k};
}

namespace {

// [n, d, h, w, c] with windows of r x r x r: rows (n, z, y, x), K (r, r, r, c). A single volume has no index for n.
struct Volume {
  int64_t n, d, h, w, c, r, stride, pad, columns;
  bool along_k = true;
  DType type = DType::f16;
};
GemmCase volume(const Volume& v) {
  auto places = [&](int64_t size) { return (size + 2 * v.pad - v.r) / v.stride + 1; };
  const int64_t od = places(v.d), oh = places(v.h), ow = places(v.w), k = v.r * v.r * v.r * v.c;
  ir::AffineMap map;
  if (v.n > 1) {
    map = {dims_of({v.n, od, oh, ow, v.r, v.r, v.r, v.c}),
           {{0, {{0, 1}}}, {Dim(-v.pad), {{1, v.stride}, {4, 1}}}, {Dim(-v.pad), {{2, v.stride}, {5, 1}}}, {Dim(-v.pad), {{3, v.stride}, {6, 1}}}, {0, {{7, 1}}}},
           std::nullopt};
  } else {
    map = {dims_of({od, oh, ow, v.r, v.r, v.r, v.c}),
           {{Dim(-v.pad), {{0, v.stride}, {3, 1}}}, {Dim(-v.pad), {{1, v.stride}, {4, 1}}}, {Dim(-v.pad), {{2, v.stride}, {5, 1}}}, {0, {{6, 1}}}},
           std::nullopt};
  }
  return {fmt::format("{} x {}x{}x{}x{} by {}, stride {}, pad {}, {} columns{} of {}", v.n, v.d, v.h, v.w, v.c, v.r, v.stride, v.pad, v.columns, v.along_k ? ", B along K" : "",
                      ir::name_of(v.type)),
          v.type,
          HostTensor(v.type, v.n > 1 ? std::vector<int64_t>{v.n, v.d, v.h, v.w, v.c} : std::vector<int64_t>{v.d, v.h, v.w, v.c}),
          HostTensor(v.type, {k, v.columns}, v.along_k ? std::vector<size_t>{1, 0} : std::vector<size_t>{}),
          map,
          v.n > 1 ? size_t{4} : size_t{3},
          v.n * od * oh * ow,
          v.columns,
          k};
}

// [n, w, c] with windows of r and this dilation: rows (n, x), K (r, c).
GemmCase line(int64_t n, int64_t w, int64_t c, int64_t r, int64_t dilation, int64_t columns, bool along_k, DType type = DType::f16) {
  const int64_t pad = (r - 1) / 2 * dilation, k = r * c;
  return {fmt::format("{} lines of {}x{} by {}, dilation {}, {} columns{} of {}", n, w, c, r, dilation, columns, along_k ? ", B along K" : "", ir::name_of(type)),
          type,
          HostTensor(type, {n, w, c}),
          HostTensor(type, {k, columns}, along_k ? std::vector<size_t>{1, 0} : std::vector<size_t>{}),
          ir::AffineMap{dims_of({n, w, r, c}), {{0, {{0, 1}}}, {Dim(-pad), {{1, 1}, {2, dilation}}}, {0, {{3, 1}}}}, std::nullopt},
          2,
          n * w,
          columns,
          k};
}

// The first layer of a network: [c, h, w] with K (c, r, r), or [h, w, c] with K (r, r, c). Runs of 3 or 7 elements do not fill vectors of eight.
GemmCase first_layer(bool channels_last, bool along_k, DType type = DType::f16) {
  constexpr int64_t c = 3, h = 15, w = 14, r = 7, pad = 3, n = 64, oh = 8, ow = 7, m = oh * ow, k = r * r * c;
  GemmCase s{fmt::format("a first layer{} of {}", channels_last ? ", channels last" : "", ir::name_of(type)),
             type,
             HostTensor(type, channels_last ? std::vector<int64_t>{h, w, c} : std::vector<int64_t>{c, h, w}),
             HostTensor(type, {k, n}, along_k ? std::vector<size_t>{1, 0} : std::vector<size_t>{}),
             ir::AffineMap{dims_of({oh, ow, r, r, c}), {}, std::nullopt},
             2,
             m,
             n,
             k};
  ir::AffineMap& map = *s.map;
  if (channels_last) {
    map.axes = {{Dim(-pad), {{0, 2}, {2, 1}}}, {Dim(-pad), {{1, 2}, {3, 1}}}, {0, {{4, 1}}}};
  } else {
    map.dims = dims_of({oh, ow, c, r, r});
    map.axes = {{0, {{2, 1}}}, {Dim(-pad), {{0, 2}, {3, 1}}}, {Dim(-pad), {{1, 2}, {4, 1}}}};
  }
  return s;
}

}  // namespace

std::vector<GemmCase> other_rank_cases() {
  constexpr DType f16 = DType::f16, f32 = DType::f32;
  std::vector<GemmCase> out = {volume({2, 4, 5, 6, 64, 3, 1, 1, 72}),
                               volume({1, 5, 6, 7, 64, 3, 2, 1, 64, false}),
                               volume({2, 3, 4, 3, 3, 3, 1, 1, 16}),
                               volume({2, 3, 4, 5, 32, 3, 1, 1, 64, true, f32}),
                               volume({1, 4, 4, 5, 12, 3, 1, 1, 40, true, f32}),
                               line(2, 150, 64, 7, 1, 72, true),
                               line(3, 40, 64, 3, 9, 64, false)};
  GemmCase odd = volume({2, 3, 4, 5, 24, 3, 1, 1, 40, true, f16});
  odd.shifted = true;
  odd.name += ", odd addresses";
  out.push_back(odd);
  GemmCase shared = volume({1, 3, 4, 4, 128, 3, 1, 1, 72, true, f16});
  shared.multiprocessors = 16;
  shared.name += ", K shared";
  out.push_back(shared);
  return out;
}

std::vector<GemmCase> skinny_cases() {
  std::vector<GemmCase> out;
  for (bool shifted : {false, true}) {
    for (GemmCase s : {plain(2, 72, 264, true), plain(3, 24, 2312, true, DType::bf16), plain(8, 40, 8, true)}) {
      s.shifted = shifted;
      s.name += shifted ? ", few rows, odd addresses" : ", few rows";
      out.push_back(s);
    }
  }
  GemmCase infinite = plain(4, 24, 264, true);
  infinite.infinity = true;
  infinite.name += ", few rows, one infinite";
  out.push_back(infinite);
  GemmCase gated = plain(4, 80, 2072, true, DType::bf16);
  gated.n = 40;
  gated.gated = true;
  gated.name += ", few rows, gated epilogue";
  out.push_back(gated);
  GemmCase axes = plain(6, 24, 40, true);
  axes.rows = {3, 2};
  axes.name += ", few rows of two axes";
  out.push_back(axes);
  axes.rows = {6, 1};
  axes.merged = true;
  axes.name += ", of which the inner one has one row";
  out.push_back(axes);
  GemmCase parts = plain(2, 136, 72, true);
  parts.parts_of_b = {56, 8, 24, 16, 8, 24};
  parts.name += ", few rows, B in parts";
  out.push_back(parts);
  GemmCase both = plain(3, 80, 264, true, DType::bf16);
  both.n = 40;
  both.gated = true;
  both.parts_of_b = {40, 40};
  both.name += ", few rows, gated epilogue, B in parts";
  out.push_back(both);
  return out;
}

std::vector<GemmCase> parts_cases() {
  std::vector<GemmCase> out;
  for (bool shifted : {false, true}) {
    for (const auto& [m, n] : {std::pair(20, std::vector<int64_t>{128, 64, 64}), std::pair(130, std::vector<int64_t>{40, 8, 24}), std::pair(70, std::vector<int64_t>{256, 192})}) {
      GemmCase s = plain(m, std::accumulate(n.begin(), n.end(), int64_t{0}), 200, true);
      s.parts_of_b = n;
      s.shifted = shifted;
      s.name += fmt::format(", B in {} parts{}", n.size(), shifted ? ", odd addresses" : "");
      out.push_back(s);
    }
    GemmCase gated = plain(130, 528, 136, true, DType::bf16);
    gated.n = 264;
    gated.gated = true;
    gated.parts_of_b = {264, 264};
    gated.shifted = shifted;
    gated.name += fmt::format(", gated epilogue, B in parts{}", shifted ? ", odd addresses" : "");
    out.push_back(gated);
  }
  return out;
}

std::vector<GemmCase> half_cases() {
  std::vector<GemmCase> out = {plain(130, 136, 136, false),
                               plain(130, 136, 200, true),
                               plain(70, 64, 64, true, DType::bf16),
                               plain(3, 8, 8, false),
                               convolution(9, 7, 24, 3, 1, 1, 72, false),
                               convolution(12, 10, 64, 3, 2, 1, 64, true)};
  for (bool along_k : {false, true}) {
    GemmCase shared = plain(40, 72, 520, along_k);
    shared.multiprocessors = 16;
    shared.name += ", K shared";
    out.push_back(shared);
    shared.shifted = true;
    shared.name += ", odd addresses";
    out.push_back(shared);
  }
  for (bool shifted : {false, true}) {
    GemmCase row = plain(1, 72, 4104, true);
    row.shifted = shifted;
    row.name += shifted ? ", odd addresses" : "";
    out.push_back(row);
    for (Prologue prologue : {Prologue::gate, Prologue::norm}) {
      for (DType type : {DType::f16, DType::bf16}) {
        GemmCase own = plain(1, 40, 4104, true, type);
        own.prologue = prologue;
        own.shifted = shifted;
        own.name += fmt::format(", prologue{}{}", prologue == Prologue::norm ? " (norm)" : "", shifted ? ", odd addresses" : "");
        out.push_back(own);
      }
    }
    for (Prologue prologue : {Prologue::none, Prologue::norm}) {
      GemmCase gated = plain(1, 80, 2072, true, DType::bf16);
      gated.n = 40;
      gated.gated = true;
      gated.prologue = prologue;
      gated.shifted = shifted;
      gated.name += fmt::format(", gated epilogue{}{}", prologue == Prologue::norm ? ", prologue" : "", shifted ? ", odd addresses" : "");
      out.push_back(gated);
      gated.parts_of_b = {40, 40};
      gated.name += ", B in parts";
      out.push_back(gated);
    }
    for (Prologue prologue : {Prologue::none, Prologue::gate}) {
      GemmCase three = plain(1, 88, 2072, true);
      three.parts_of_b = {56, 8, 24};
      three.prologue = prologue;
      three.shifted = shifted;
      three.name += fmt::format(", B in parts{}{}", prologue == Prologue::gate ? ", prologue" : "", shifted ? ", odd addresses" : "");
      out.push_back(three);
    }
  }
  for (bool channels_last : {false, true}) {
    for (bool along_k : {false, true}) out.push_back(first_layer(channels_last, along_k));
  }
  for (bool channels_last : {false, true}) {
    out.push_back(few_channels({1, 32, 40, 3, 7, 7, 2, 3, 64, channels_last, true}));
    out.push_back(few_channels({3, 10, 24, 3, 3, 3, 1, 1, 64, channels_last, false, DType::bf16}));
  }
  out.push_back(few_channels({1, 18, 33, 3, 3, 3, 2, 1, 40, false, true}));
  out.push_back(few_channels({3, 36, 72, 3, 4, 4, 4, 0, 96, true, true}));
  out.push_back(few_channels({2, 9, 24, 4, 5, 3, 1, 2, 136, true, true, DType::bf16}));
  out.push_back(few_channels({2, 20, 19, 1, 5, 5, 2, 2, 16, false, false}));
  out.push_back(few_channels({1, 12, 16, 1, 3, 3, 1, 1, 24, false, true}));
  out.push_back(few_channels({2, 12, 17, 2, 3, 3, 3, 1, 32, true, true}));
  GemmCase small_gpu = few_channels({3, 20, 40, 3, 3, 3, 2, 1, 64, false, true});
  small_gpu.multiprocessors = 16;
  out.push_back(small_gpu);
  small_gpu.shifted = true;
  small_gpu.name += ", odd addresses";
  out.push_back(small_gpu);
  GemmCase odd = convolution(5, 7, 24, 3, 1, 1, 136, false);
  odd.shifted = true;
  odd.name += ", odd addresses";
  out.push_back(odd);
  return out;
}

std::vector<GemmCase> float_cases() {
  constexpr DType f32 = DType::f32;
  std::vector<GemmCase> out = {plain(3, 8, 4, true, f32), convolution(9, 7, 12, 3, 1, 1, 72, true, f32), convolution(12, 10, 64, 3, 2, 1, 64, true, f32)};
  for (bool along_k : {false, true}) {
    out.push_back(plain(130, 136, 100, along_k, f32));
    out.push_back(convolution(9, 7, 24, 3, 1, 1, 72, along_k, f32));
    out.push_back(convolution(5, 7, 10, 3, 1, 1, 136, along_k, f32));  // no whole vectors
    for (bool channels_last : {false, true}) {
      out.push_back(first_layer(channels_last, along_k, f32));
      out.push_back(few_channels({1, 20, 24, 3, 7, 7, 2, 3, 64, channels_last, along_k, f32}));
    }
    GemmCase shared = plain(40, 72, 520, along_k, f32);
    shared.multiprocessors = 16;
    shared.name += ", K shared";
    out.push_back(shared);
    shared.shifted = true;
    shared.name += ", odd addresses";
    out.push_back(shared);
  }
  out.push_back(few_channels({2, 10, 19, 3, 3, 3, 1, 1, 40, false, true, f32}));
  out.push_back(few_channels({2, 9, 24, 4, 5, 3, 1, 2, 136, true, true, f32}));
  out.push_back(few_channels({2, 12, 17, 2, 3, 3, 3, 1, 32, true, false, f32}));
  out.push_back(few_channels({1, 12, 16, 1, 3, 3, 1, 1, 24, false, true, f32}));
  return out;
}

namespace {

// [n, d, h, w, c] or [n, c, d, h, w] with windows of any size at stride 1, as many places before and after the volume: rows (n, z, y, x), K (windows, c) or
// (c, windows).
struct Windows {
  std::array<int64_t, 4> size;
  int64_t c;
  std::array<int64_t, 3> kernel, before, behind;
  int64_t columns;
  bool last = true, along_k = true;
  DType type = DType::f16;
};
GemmCase windows(const Windows& v) {
  const auto& k = v.kernel;
  std::array<int64_t, 3> places{};
  for (size_t d = 0; d < 3; ++d) places[d] = v.size[1 + d] + v.before[d] + v.behind[d] - k[d] + 1;
  const int64_t rows = v.size[0] * places[0] * places[1] * places[2], inner = k[0] * k[1] * k[2] * v.c;
  const uint32_t taps = v.last ? 4 : 5;
  ir::AffineMap map{
      v.last ? dims_of({v.size[0], places[0], places[1], places[2], k[0], k[1], k[2], v.c}) : dims_of({v.size[0], places[0], places[1], places[2], v.c, k[0], k[1], k[2]}),
      {{0, {{0, 1}}}},
      std::nullopt};
  for (uint32_t d = 0; d < 3; ++d) map.axes.push_back({Dim(-v.before[d]), {{1 + d, 1}, {taps + d, 1}}});
  map.axes.insert(v.last ? map.axes.end() : map.axes.begin() + 1, {0, {{v.last ? 7u : 4u, 1}}});
  const auto& n = v.size;
  return {fmt::format("{} x {}x{}x{} of {} channels{} by {}x{}x{}, {} columns{} of {}", n[0], n[1], n[2], n[3], v.c, v.last ? ", channels last," : "", k[0], k[1], k[2], v.columns,
                      v.along_k ? ", B along K" : "", ir::name_of(v.type)),
          v.type,
          HostTensor(v.type, v.last ? std::vector<int64_t>{n[0], n[1], n[2], n[3], v.c} : std::vector<int64_t>{n[0], v.c, n[1], n[2], n[3]}),
          HostTensor(v.type, {inner, v.columns}, v.along_k ? std::vector<size_t>{1, 0} : std::vector<size_t>{}),
          map,
          4,
          rows,
          v.columns,
          inner};
}

}  // namespace

std::vector<GemmCase> volume_cases() {
  constexpr DType f16 = DType::f16, bf16 = DType::bf16, f32 = DType::f32;
  std::vector<GemmCase> out = {volume({2, 5, 9, 18, 16, 3, 1, 1, 16}),
                               windows({{3, 1, 2, 3}, 47, {2, 3, 5}, {1, 0, 2}, {1, 2, 1}, 8}),
                               windows({{2, 5, 4, 5}, 5, {3, 5, 7}, {2, 4, 6}, {2, 4, 6}, 24, false, false, bf16}),
                               windows({{1, 2, 3, 2}, 8, {3, 3, 3}, {2, 9, 17}, {2, 9, 17}, 16, true, true, bf16}),
                               windows({{1, 3, 5, 1}, 23, {3, 3, 2}, {0, 2, 1}, {1, 1, 1}, 32, false, true, f32}),
                               volume({1, 3, 4, 17, 32, 3, 1, 1, 32, false, bf16}),
                               volume({2, 4, 5, 6, 1, 3, 1, 1, 16}),
                               volume({1, 4, 5, 6, 8, 2, 1, 0, 24}),
                               volume({1, 4, 5, 6, 12, 3, 1, 1, 16, true, f32}),
                               volume({3, 2, 5, 3, 40, 3, 1, 1, 32}),
                               windows({{1, 1, 1, 1}, 16, {3, 3, 3}, {2, 2, 2}, {2, 2, 2}, 8, true, false, f16})};
  for (GemmCase& s : out) s.infinity = true;
  // Several blocks, and stores with an axis for each index of the rows.
  out[0].multiprocessors = 3;
  GemmCase axes = windows({{2, 3, 4, 5}, 16, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, 24});
  axes.rows = {2, 3, 4, 5};
  out.push_back(axes);
  for (int64_t channels : {3, 16}) {
    out.push_back(volume({1, 3, 4, 5, channels, 3, 1, 1, 16, false}));
    out.back().shifted = true;
    out.back().name += ", odd addresses";
  }
  return out;
}

std::vector<GemmCase> row_axes_cases() {
  constexpr DType f32 = DType::f32;
  std::vector<GemmCase> out;
  auto add = [&](GemmCase s, std::vector<int64_t> rows) {
    s.rows = std::move(rows);
    s.name += ", rows of several axes";
    out.push_back(std::move(s));
  };
  add(plain(120, 32, 40, false), {2, 3, 4, 5});
  add(plain(132, 136, 72, true, DType::bf16), {11, 1, 12});
  add(convolution(9, 7, 12, 3, 1, 1, 72, true, f32), {2, 9, 7});
  add(volume({2, 4, 5, 6, 64, 2, 1, 0, 72}), {2, 3, 4, 5});
  add(few_channels({3, 10, 24, 3, 3, 3, 1, 1, 64, true, false}), {3, 10, 24});
  add(plain(170, 72, 136, true), {2, 85});
  out.back().gap = 40;
  add(plain(70, 72, 136, true), {70, 1});
  out.back().merged = true;
  add(plain(60, 16, 520, false), {4, 3, 5});
  out.back().shifted = true;
  out.back().multiprocessors = 16;
  return out;
}

std::vector<GemmCase> encoded_cases() {
  std::vector<GemmCase> out = {plain(70, 64, 200, true),
                               plain(3, 8, 8, true, DType::bf16),
                               plain(1, 72, 4112, true),
                               plain(1, 40, 2056, true, DType::bf16),
                               plain(40, 72, 520, true, DType::bf16),
                               plain(1, 40, 4112, true),
                               plain(1, 80, 2080, true, DType::bf16),
                               convolution(9, 7, 24, 3, 1, 1, 72, true)};
  out[4].multiprocessors = 16;
  out[5].prologue = Prologue::norm;
  out[6].n = 40;
  out[6].gated = true;
  for (size_t k : {0, 2, 5}) {
    out.push_back(out[k]);
    out.back().shifted = true;
    out.back().name += ", odd addresses";
  }
  for (GemmCase& s : out) {
    s.encoded = true;
    s.name += ", B is int8";
  }
  return out;
}

std::vector<GemmCase> packed_cases() {
  using kernels::PackedB;
  constexpr PackedB g32{4, 32, 2, false}, g64{4, 64, 4, true}, g128{4, 128, 2, true}, wide{4, 32, 4, false}, bytes{};
  struct Of {
    int64_t m, n, k;
    DType type;
    PackedB b;
  };
  const Of all[] = {{1, 40, 160, DType::bf16, g32},   {1, 48, 2176, DType::f16, g128},  {5, 72, 320, DType::f16, g64},     {8, 24, 96, DType::bf16, wide},   {1, 40, 2080, DType::f32, g32},
                    {7, 24, 256, DType::f32, g128},   {20, 40, 160, DType::bf16, g32},  {70, 72, 160, DType::f16, g32},    {70, 64, 192, DType::bf16, g64},  {1, 40, 2056, DType::bf16, bytes},
                    {3, 72, 520, DType::f16, bytes},  {50, 40, 136, DType::bf16, bytes}, {1, 32, 160, DType::f16, g32},    {1, 48, 1024, DType::bf16, g128}, {2, 48, 320, DType::f16, g64},
                    {40, 64, 160, DType::bf16, g32}};
  std::vector<GemmCase> out;
  for (const Of& o : all) {
    GemmCase& s = out.emplace_back(plain(o.m, o.n, o.k, true, o.type));
    s.packed = o.b;
    s.name += fmt::format(", packed in {} bits, groups of {}{}", o.b.bits, o.b.group, o.b.zero ? " with zeros" : "");
  }
  auto gate = [](GemmCase& s) {
    const std::string name = s.name;
    const auto packed = s.packed;
    const int64_t n = s.n;
    s = plain(s.m, 2 * n, s.k, true, s.type);
    s.n = n;
    s.packed = packed;
    s.gated = true;
    s.name = name + ", gated";
  };
  gate(out[12]), gate(out[13]);
  out[13].prologue = Prologue::norm;
  out[0].multiprocessors = 4;
  out[5].multiprocessors = 4;
  for (size_t k : {2, 4, 7, 10}) {
    out.push_back(out[k]);
    out.back().shifted = true;
    out.back().name += ", odd addresses";
  }
  return out;
}

}  // namespace ingot::backend::cuda
