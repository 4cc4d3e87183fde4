// Ingot's own GEMM kernels on the host and, if there is one, on a GPU: every tile, layout and map, with epilogues, against sums in double.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>

#include "backend/cpu/compile/body_builder_test.h"
#include "backend/cuda/available_test.h"
#include "backend/cuda/compile/emulated_test.h"
#include "backend/cuda/kernels/fused/fused_cases_test.h"
#include "backend/cuda/kernels/gemm.h"
#include "backend/cuda/kernels/gpu_step_test.h"
#include "backend/cuda/kernels/implicit_gemm/implicit_gemm.h"
#include "backend/cuda/kernels/implicit_gemm/run/implicit_gemm_args.h"
#include "backend/cuda/kernels/implicit_gemm/run/implicit_gemm_launches.h"

namespace ingot::backend::cuda {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;

StridedLayout layout_of(const HostTensor& t) { return {dims_of(t.dims), dims_of(t.strides), Dim(0)}; }

// An element by its coordinates; 0 outside.
double at(const HostTensor& t, const std::vector<int64_t>& where) {
  int64_t element = t.offset;
  for (size_t d = 0; d < where.size(); ++d) {
    if (where[d] < 0 || where[d] >= t.dims[d]) return 0;
    element += where[d] * t.strides[d];
  }
  return t.get(static_cast<size_t>(element));
}

// The nearest number of 10 bits of mantissa, which is what is multiplied of floats.
double as_tf32(double x) {
  auto bits = std::bit_cast<uint32_t>(static_cast<float>(x));
  return std::isfinite(x) ? std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu) : x;
}

// What makes the left operand, a single row: nothing, silu(x) * y * w, or x / sqrt(mean of squares), rounded, times w.
enum class Made : uint8_t { no, gated, norm };

struct Site {
  std::string name;
  DType type = DType::f16;
  HostTensor a, b;
  std::optional<ir::AffineMap> map = std::nullopt;
  size_t m_rank = 1;
  int64_t m, n, k;
  bool infinity = false;        // in A: windows without it are finite
  bool shifted = false;         // operands at odd addresses
  int multiprocessors = 1;      // many: small tiles, and K is split
  uint16_t tiles = all_tiles;
  Made made = Made::no;
  bool halves = false;          // gated epilogue
  std::vector<int64_t> apart = {};  // piecewise B: columns of each matrix
  bool encoded = false;         // B is int8

  double multiplied(double x) const { return type == DType::f32 ? as_tf32(x) : x; }
  double left(int64_t row, int64_t column) const {
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
};

// gelu(acc * scale[n] + bias[n]) + residual[m, n], stored twice: as it is, and transposed in f32. If gated, the
// result of GELU is a factor of the second half.
struct Body {
  FusedBody body;
  std::vector<StridedLayout> layouts;
  std::vector<HostTensor> tensors;

  explicit Body(const Site& s) {
    body.outer = {Dim(s.m)};
    body.row = {Dim(s.n)};
    auto add = [&](Instruction i) {
      i.dtype = DType::f32;
      body.code.push_back(std::move(i));
      return static_cast<Reg>(body.code.size() - 1);
    };
    auto map = [&](Op op, std::vector<Reg> in) {
      Instruction i{};
      i.kind = Instruction::Kind::map;
      i.op = op;
      i.in = std::move(in);
      return add(i);
    };
    auto operand = [&](HostTensor t) {
      t.fill(static_cast<uint32_t>(7 + tensors.size()), true);
      layouts.push_back(layout_of(t));
      body.operands.push_back(t.dtype);
      tensors.push_back(std::move(t));
      return static_cast<uint32_t>(tensors.size() - 1);
    };
    auto load = [&](HostTensor t) {
      Instruction i{};
      i.kind = Instruction::Kind::load;
      i.operand = operand(std::move(t));
      return add(i);
    };
    Instruction i{};
    i.kind = Instruction::Kind::accumulator;
    Reg acc = add(i);
    Reg scale = load(HostTensor(DType::f32, {1, s.n})), bias = load(HostTensor(s.type, {1, s.n})), residual = load(HostTensor(s.type, {s.m, s.n}));
    Reg row = load(HostTensor(DType::f32, {s.m, 1}));
    Reg inner = map(Op::gelu, {map(Op::add, {map(Op::mul, {acc, scale}), bias})});
    if (s.halves) {
      i.half = 1;
      inner = map(Op::mul, {inner, add(i)});
    }
    Reg out = map(Op::add, {map(Op::add, {inner, residual}), row});
    body.stores = {{operand(HostTensor(DType::f32, {s.m, s.n}, {1, 0})), out}, {operand(HostTensor(s.type, {s.m, s.n})), out}};
  }
  double expected(double sum, double factor, int64_t row, int64_t column) const {
    double x = sum * at(tensors[0], {0, column}) + at(tensors[1], {0, column});
    return 0.5 * x * std::erfc(-x * std::sqrt(0.5)) * factor + at(tensors[2], {row, column}) + at(tensors[3], {row, 0});
  }
};

struct MadeRow {
  FusedBody body;
  std::vector<StridedLayout> layouts;
  std::vector<HostTensor> tensors;

  explicit MadeRow(const Site& s) {
    cpu::BodyBuilder b({1}, {s.k});
    auto load = [&](DType t) {
      tensors.emplace_back(t, std::vector<int64_t>{1, s.k});
      tensors.back().fill(static_cast<uint32_t>(20 + tensors.size()), true);
      return b.load(t);
    };
    constexpr DType f32 = DType::f32;
    Reg x = load(s.type), out;
    if (s.made == Made::gated) {
      Reg y = load(s.type), w = load(f32);
      out = b.map(Op::mul, f32, {b.map(Op::mul, f32, {b.map(Op::silu, f32, {x}), y}), w});
    } else {
      Reg w = load(s.type), sum = b.reduce(Reduction::sum, f32, b.map(Op::mul, f32, {x, x}));
      Reg scale = b.map(Op::rsqrt, f32, {b.map(Op::mul, f32, {sum, b.number(1.0 / static_cast<double>(s.k), f32)})});
      out = b.map(Op::mul, f32, {b.map(Op::cast, s.type, {b.map(Op::mul, f32, {x, scale})}), w});
    }
    b.store(s.type, out);
    body = std::move(b.body);
    for (const HostTensor& t : tensors) layouts.push_back(layout_of(t));
    layouts.push_back(layout_of(s.a));
  }
  void make(HostTensor& row, Made made) const {
    auto x = [&](size_t tensor, size_t k) { return tensors[tensor].get(k); };
    const size_t n = tensors[0].elements();
    double squares = 0;
    for (size_t k = 0; k < n; ++k) squares += x(0, k) * x(0, k);
    for (size_t k = 0; k < n; ++k) {
      if (made == Made::gated) {
        row.set(k, x(0, k) / (1 + std::exp(-x(0, k))) * x(1, k) * x(2, k));
      } else {
        row.set(k, x(0, k) / std::sqrt(squares / static_cast<double>(n)));
        row.set(k, row.get(k) * x(1, k));
      }
    }
  }
};

void check(Site s, Where where) {
  SCOPED_TRACE(fmt::format("{}, way {}", s.name, static_cast<int>(where)));
  s.a.fill(1, true);
  s.b.fill(2, true);
  if (s.encoded) {
    HostTensor numbers(DType::i8, s.b.dims, {1, 0});
    uint32_t h = 3;
    for (size_t e = 0; e < numbers.elements(); ++e) numbers.set(e, static_cast<double>(static_cast<int8_t>((h = h * 1664525u + 1013904223u) >> 24) >> (s.halves ? 6 : 0)));
    s.b = std::move(numbers);
  }
  if (s.infinity) s.a.set(s.a.elements() / 2, INFINITY);
  Body body(s);
  Gemm p;
  p.type = s.type;
  p.a = layout_of(s.a);
  p.map = s.map;
  p.m_rank = s.m_rank;
  p.constant = s.m == 1;
  if (s.encoded) p.encoding = ir::Encoding{.storage = DType::i8, .block = ir::Encoding::Block{0, 1}};
  p.gated = s.halves;
  std::vector<HostTensor> pieces;
  int64_t from = 0;
  for (int64_t columns : s.apart) {
    HostTensor part(s.type, {s.k, columns}, {1, 0});
    for (int64_t e = 0; e < s.k * columns; ++e) part.set(static_cast<size_t>(e), s.b.get(static_cast<size_t>(from * s.k + e)));
    pieces.push_back(std::move(part));
    from += columns;
  }
  if (pieces.empty()) pieces.push_back(s.b);
  for (HostTensor& part : pieces) p.b.push_back(layout_of(part));
  std::vector<HostTensor*> tensors = {&s.a};
  std::optional<MadeRow> made;
  if (s.made != Made::no) {
    made.emplace(s);
    made->make(s.a, s.made);
    p.prologue = {&made->body, made->layouts};
    tensors.clear();
    for (HostTensor& t : made->tensors) tensors.push_back(&t);
  }
  for (HostTensor& t : pieces) tensors.push_back(&t);
  const Taken own = take(implicit_gemm(p, body.body, body.layouts, where >= Where::early_groups, s.tiles));
  ASSERT_EQ(own.obstacle, std::nullopt);
  for (HostTensor& t : body.tensors) tensors.push_back(&t);
  std::vector<int64_t> sizes;
  for (const Dim& d : own.step.sizes) sizes.push_back(d.value());
  run_printed({own.step, own.step.code[0].name, std::string(kernels::implicit_gemm_cuda_text()) + own.step.code[0].text, own.step.code[0].kernels, kernels::load_implicit_gemm_cuda,
               kernels::implicit_gemm_cuda_launches},
              tensors, sizes, where, s.shifted ? 1 : 0, s.multiprocessors);
  // f32 sums of numbers around 1, and one rounding to what is stored.
  // The copying unit of a GPU rounds ties of floats to even, kernels by warps away from zero: a factor may be off by a rounding to TF32.
  const double tie = s.type == DType::f32 && where == Where::gpu ? std::ldexp(1.0, -10) : 0;
  const double rounding = s.type == DType::f16 ? 1e-3 : s.type == DType::bf16 ? 8e-3 : 0;
  const int64_t columns = s.b.dims[1];
  std::vector<double> left(static_cast<size_t>(s.k)), right(static_cast<size_t>(s.k * columns));
  for (int64_t k = 0; k < s.k; ++k) {
    for (int64_t column = 0; column < columns; ++column) right[static_cast<size_t>(column * s.k + k)] = s.multiplied(at(s.b, {k, column}));
  }
  struct Sum {
    double value = 0, size = 0;
  };
  for (int64_t row = 0; row < s.m; ++row) {
    for (int64_t k = 0; k < s.k; ++k) left[static_cast<size_t>(k)] = s.left(row, k);
    auto sum_of = [&](int64_t column) {
      Sum sum;
      for (size_t k = 0; k < left.size(); ++k) {
        double term = left[k] * right[static_cast<size_t>(column) * left.size() + k];
        sum.value += term;
        sum.size += std::abs(term);
      }
      return sum;
    };
    for (int64_t column = 0; column < s.n; ++column) {
      const Sum sum = sum_of(column), factor = s.halves ? sum_of(s.n + column) : Sum{1, 0};
      if (!std::isfinite(sum.value)) continue;
      double wanted = body.expected(sum.value, factor.value, row, column), size = sum.size * std::abs(factor.value) + factor.size * std::abs(sum.value);
      for (size_t store : {size_t{4}, size_t{5}}) {
        double found = at(body.tensors[store], {row, column});
        // Elements of a prologue's row may be rounded the other way.
        const double other_way = made ? rounding * 8 * (1 + std::abs(factor.value) + (s.halves ? std::abs(sum.value) : 0)) : 0;
        ASSERT_NEAR(found, wanted, 1e-5 * (1 + size) + tie * size + other_way + (store == 5 ? rounding * std::abs(wanted) : 0))
            << "element " << row << ", " << column << " of store " << store;
      }
    }
  }
}

// [n, h, w, c] under windows of r x s: rows (n, y, x), K (r, s, c).
Site convolution(int64_t h, int64_t w, int64_t c, int64_t r, int64_t stride, int64_t pad, int64_t n, bool along_k, DType type = DType::f16) {
  int64_t oh = (h + 2 * pad - r) / stride + 1, ow = (w + 2 * pad - r) / stride + 1, m = 2 * oh * ow, k = r * r * c;
  ir::AffineMap map = windows_of(2, oh, ow, c, r, stride, pad);
  Site s{fmt::format("convolution {}x{}x{} by {}, stride {}, {} columns{} of {}", h, w, c, r, stride, n, along_k ? ", B along K" : "", ir::name_of(type)),
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

// [n, d, h, w, c] under windows of r x r x r: rows (n, z, y, x), K (r, r, r, c). One volume has no index for n.
struct Volume {
  int64_t n, d, h, w, c, r, stride, pad, columns;
  bool along_k = true;
  DType type = DType::f16;
};
Site volume(const Volume& v) {
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

// [n, w, c] under windows of r, `apart` places apart: rows (n, x), K (r, c).
Site line(int64_t n, int64_t w, int64_t c, int64_t r, int64_t apart, int64_t columns, bool along_k, DType type = DType::f16) {
  const int64_t pad = (r - 1) / 2 * apart, k = r * c;
  return {fmt::format("{} lines of {}x{} by {}, {} apart, {} columns{} of {}", n, w, c, r, apart, columns, along_k ? ", B along K" : "", ir::name_of(type)),
          type,
          HostTensor(type, {n, w, c}),
          HostTensor(type, {k, columns}, along_k ? std::vector<size_t>{1, 0} : std::vector<size_t>{}),
          ir::AffineMap{dims_of({n, w, r, c}), {{0, {{0, 1}}}, {Dim(-pad), {{1, 1}, {2, apart}}}, {0, {{3, 1}}}}, std::nullopt},
          2,
          n * w,
          columns,
          k};
}

// Volumes and lines: tiles that the copying unit brings, tiles of warps, odd channels and addresses, K shared.
std::vector<Site> sites_of_other_ranks() {
  constexpr DType f16 = DType::f16, f32 = DType::f32;
  std::vector<Site> out = {volume({2, 4, 5, 6, 64, 3, 1, 1, 72}),
                           volume({1, 5, 6, 7, 64, 3, 2, 1, 64, false}),
                           volume({2, 3, 4, 3, 3, 3, 1, 1, 16}),
                           volume({2, 3, 4, 5, 32, 3, 1, 1, 64, true, f32}),
                           volume({1, 4, 4, 5, 12, 3, 1, 1, 40, true, f32}),
                           line(2, 150, 64, 7, 1, 72, true),
                           line(3, 40, 64, 3, 9, 64, false)};
  Site odd = volume({2, 3, 4, 5, 24, 3, 1, 1, 40, true, f16});
  odd.shifted = true;
  odd.name += ", odd addresses";
  out.push_back(odd);
  Site shared = volume({1, 3, 4, 4, 128, 3, 1, 1, 72, true, f16});
  shared.multiprocessors = 16;
  shared.name += ", K shared";
  out.push_back(shared);
  return out;
}

// [n, c, h, w] under windows of r x r: K (c, r, s), or [n, h, w, c] with K (r, s, c): first layers, whose eights are not whole.
Site first_layer(bool channels_last, bool along_k, DType type = DType::f16) {
  constexpr int64_t c = 3, h = 15, w = 14, r = 7, pad = 3, n = 64, oh = 8, ow = 7, m = oh * ow, k = r * r * c;
  Site s{fmt::format("a first layer{} of {}", channels_last ? ", channels last" : "", ir::name_of(type)),
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

// [batch, c, h, w] with windows of r x s, K (c, r, s), in any layout: the kernels for few channels.
struct Few {
  int64_t batch, h, w, c, r, s, stride, pad, n;
  bool channels_last, along_k;
  DType type = DType::f16;
};
Site few_channels(const Few& f) {
  const int64_t oh = (f.h + 2 * f.pad - f.r) / f.stride + 1, ow = (f.w + 2 * f.pad - f.s) / f.stride + 1, k = f.c * f.r * f.s;
  ir::AffineMap map{dims_of({f.batch, oh, ow, f.c, f.r, f.s}), {}, std::nullopt};
  map.axes = {{0, {{0, 1}}}, {0, {{3, 1}}}, {Dim(-f.pad), {{1, f.stride}, {4, 1}}}, {Dim(-f.pad), {{2, f.stride}, {5, 1}}}};
  Site s{fmt::format("{} x {} x {} x {}{} by {} x {}, stride {}, {} columns{} of {}", f.batch, f.h, f.w, f.c, f.channels_last ? ", channels last," : "", f.r, f.s, f.stride, f.n,
                     f.along_k ? ", B along K" : "", ir::name_of(f.type)),
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

Site plain(int64_t m, int64_t n, int64_t k, bool along_k, DType type = DType::f16) {
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

std::vector<Site> sites() {
  std::vector<Site> out = {plain(130, 136, 136, false),
                           plain(130, 136, 200, true),
                           plain(70, 64, 64, true, DType::bf16),
                           plain(3, 8, 8, false),
                           convolution(9, 7, 24, 3, 1, 1, 72, false),
                           convolution(12, 10, 64, 3, 2, 1, 64, true)};
  for (bool along_k : {false, true}) {
    Site shared = plain(40, 72, 520, along_k);
    shared.multiprocessors = 16;
    shared.name += ", K shared";
    out.push_back(shared);
    shared.shifted = true;
    shared.name += ", odd addresses";
    out.push_back(shared);
  }
  for (bool shifted : {false, true}) {
    Site row = plain(1, 72, 4104, true);
    row.shifted = shifted;
    row.name += shifted ? ", odd addresses" : "";
    out.push_back(row);
    for (Made made : {Made::gated, Made::norm}) {
      for (DType type : {DType::f16, DType::bf16}) {
        Site own = plain(1, 40, 4104, true, type);
        own.made = made;
        own.shifted = shifted;
        own.name += fmt::format(", the row is made{}{}", made == Made::norm ? " (norm)" : "", shifted ? ", odd addresses" : "");
        out.push_back(own);
      }
    }
    for (Made made : {Made::no, Made::norm}) {
      Site gated = plain(1, 80, 2072, true, DType::bf16);
      gated.n = 40;
      gated.halves = true;
      gated.made = made;
      gated.shifted = shifted;
      gated.name += fmt::format(", halves meet{}{}", made == Made::norm ? ", the row is made" : "", shifted ? ", odd addresses" : "");
      out.push_back(gated);
      gated.apart = {40, 40};
      gated.name += ", apart";
      out.push_back(gated);
    }
    for (Made made : {Made::no, Made::gated}) {
      Site three = plain(1, 88, 2072, true);
      three.apart = {56, 8, 24};
      three.made = made;
      three.shifted = shifted;
      three.name += fmt::format(", columns apart{}{}", made == Made::gated ? ", the row is made" : "", shifted ? ", odd addresses" : "");
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
  Site apart = few_channels({3, 20, 40, 3, 3, 3, 2, 1, 64, false, true});
  apart.multiprocessors = 16;
  out.push_back(apart);
  apart.shifted = true;
  apart.name += ", odd addresses";
  out.push_back(apart);
  Site odd = convolution(5, 7, 24, 3, 1, 1, 136, false);
  odd.shifted = true;
  odd.name += ", odd addresses";
  out.push_back(odd);
  return out;
}

// Floats, by TF32: pieces of 16 bytes are fours, tiles of K 32 deep.
std::vector<Site> float_sites() {
  constexpr DType f32 = DType::f32;
  std::vector<Site> out = {plain(3, 8, 4, true, f32), convolution(9, 7, 12, 3, 1, 1, 72, true, f32), convolution(12, 10, 64, 3, 2, 1, 64, true, f32)};
  for (bool along_k : {false, true}) {
    out.push_back(plain(130, 136, 100, along_k, f32));
    out.push_back(convolution(9, 7, 24, 3, 1, 1, 72, along_k, f32));
    out.push_back(convolution(5, 7, 10, 3, 1, 1, 136, along_k, f32));  // no whole pieces
    for (bool channels_last : {false, true}) {
      out.push_back(first_layer(channels_last, along_k, f32));
      out.push_back(few_channels({1, 20, 24, 3, 7, 7, 2, 3, 64, channels_last, along_k, f32}));
    }
    Site shared = plain(40, 72, 520, along_k, f32);
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

// B is int8: tiles, K shared, one row, one row that is made, halves that meet.
std::vector<Site> encoded_sites() {
  std::vector<Site> out = {plain(70, 64, 200, true),
                           plain(3, 8, 8, true, DType::bf16),
                           plain(1, 72, 4112, true),
                           plain(1, 40, 2056, true, DType::bf16),
                           plain(40, 72, 520, true, DType::bf16),
                           plain(1, 40, 4112, true),
                           plain(1, 80, 2080, true, DType::bf16),
                           convolution(9, 7, 24, 3, 1, 1, 72, true)};
  out[4].multiprocessors = 16;
  out[5].made = Made::norm;
  out[6].n = 40;
  out[6].halves = true;
  for (size_t k : {0, 2, 5}) {
    out.push_back(out[k]);
    out.back().shifted = true;
    out.back().name += ", odd addresses";
  }
  for (Site& s : out) {
    s.encoded = true;
    s.name += ", B is int8";
  }
  return out;
}

// These kernels are launched on any machine, for any K and number of columns.
TEST(cuda_product_emulated, few_channels_have_kernels_of_their_own) {
  auto launched = [](Site s, bool known = true) {
    Body body(s);
    Gemm p;
    p.type = s.type;
    p.a = layout_of(s.a);
    p.b = {layout_of(s.b)};
    if (!known) {
      for (Dim& d : p.a.strides) d = Dim::symbol(0);
    }
    p.map = s.map;
    p.m_rank = s.m_rank;
    const Taken own = take(implicit_gemm(p, body.body, body.layouts, true));
    std::vector<TensorRef> operands;
    auto add = [&](HostTensor& t) { operands.push_back({t.bytes.data(), t.dtype, static_cast<int>(t.dims.size()), t.dims.data(), t.strides.data()}); };
    add(s.a), add(s.b);
    for (HostTensor& t : body.tensors) add(t);
    std::vector<int64_t> sizes;
    for (const Dim& d : own.step.sizes) sizes.push_back(d.value());
    auto constants = kernels::load_implicit_gemm_cuda(own.step.constants, operands.size(), sizes.size());
    Call call;
    call.operands = operands;
    call.sizes = sizes;
    call.constants = constants.get();
    const std::string name = kernels::implicit_gemm_cuda_launches(call, {132, true}).list[0].kernel;
    return name.substr(own.step.code[0].name.size() + 1);
  };
  const Few nchw{2, 32, 40, 3, 7, 7, 2, 3, 64, false, true};
  Few nhwc = nchw, large = nchw, many = nchw, whole = nchw;
  nhwc.channels_last = true;
  large.r = large.s = 13, large.h = 30;
  many.c = 16;
  whole.r = whole.s = whole.stride = 8, whole.pad = 0;
  EXPECT_EQ(launched(few_channels(nchw)), "patch_0");
  EXPECT_EQ(launched(few_channels(nhwc)), "patch_0");
  Few floats = nchw;
  floats.type = DType::f32;
  EXPECT_EQ(launched(few_channels(floats)), "patch_0");
  EXPECT_EQ(launched(few_channels(nchw), false), "patch_0");
  EXPECT_EQ(launched(few_channels(nhwc), false), "patch_1");
  EXPECT_EQ(launched(few_channels(large)), "any_1");
  EXPECT_EQ(launched(few_channels(many)), "one_1");
  EXPECT_EQ(launched(few_channels(whole)), "1");
}

TEST(cuda_product_emulated, equals_sums) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Site& s : sites()) {
    // Convolutions of few channels use the same instructions everywhere.
    for (Where where : std::span(emulations).first(s.infinity ? 2 : std::size(emulations))) {
      check(s, where);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(cuda_product_emulated, floats_equal_sums) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Site& s : float_sites()) {
    for (Where where : std::span(emulations).first(s.infinity ? 2 : std::size(emulations))) {
      check(s, where);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(cuda_product, floats_equal_sums) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Site& s : float_sites()) check(s, Where::gpu);
  for (bool along_k : {false, true}) {
    check(plain(1030, 1160, 520, along_k, DType::f32), Where::gpu);
    check(plain(300, 72, 4104, along_k, DType::f32), Where::gpu);
    check(convolution(28, 28, 128, 3, 1, 1, 128, along_k, DType::f32), Where::gpu);
  }
}

void check_each(const std::vector<Site>& sites, std::span<const Where> ways) {
  for (const Site& s : sites) {
    for (Where where : ways) {
      check(s, where);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(cuda_product_emulated, volumes_and_lines_equal_sums) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  check_each(sites_of_other_ranks(), emulations);
}

TEST(cuda_product, volumes_and_lines_equal_sums) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Site& s : sites_of_other_ranks()) check(s, Where::gpu);
}

TEST(cuda_product_emulated, int8_equals_sums) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  check_each(encoded_sites(), emulations);
}

TEST(cuda_product, int8_equals_sums) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Site& s : encoded_sites()) check(s, Where::gpu);
  for (DType type : {DType::f16, DType::bf16}) {
    for (Site s : {plain(1, 4104, 4096, true, type), plain(16, 1032, 4096, true, type), plain(300, 1160, 520, true, type)}) {
      s.encoded = true;
      check(s, Where::gpu);
    }
  }
}

// Independent of the cost model's choice.
void check_large_tiles(std::span<const Where> ways) {
  Site strided = convolution(7, 9, 72, 1, 2, 0, 72, false), images = convolution(9, 7, 136, 3, 1, 1, 72, true);
  for (const Site& s :
       {plain(130, 264, 200, true), plain(130, 264, 520, false, DType::bf16), convolution(9, 7, 64, 3, 1, 1, 72, false), convolution(12, 10, 64, 3, 2, 1, 64, true), strided,
        images, plain(130, 320, 520, true), plain(130, 160, 200, false, DType::bf16), convolution(9, 7, 64, 3, 1, 1, 160, false), plain(130, 264, 100, true, DType::f32),
        convolution(9, 7, 72, 3, 1, 1, 72, true, DType::f32), convolution(12, 10, 32, 3, 2, 1, 64, true, DType::f32), convolution(7, 9, 36, 1, 2, 0, 160, true, DType::f32)}) {
    for (size_t tile = 0; tile < std::size(kernels::implicit_gemm_large_tiles); ++tile) {
      // Sites with whole tiles of 160 columns are for that tile.
      if (!kernels::implicit_gemm_large_tiles[tile].takes(s.n) || (s.n % 160 == 0) != (kernels::implicit_gemm_large_tiles[tile].columns == 160)) continue;
      Site one = s;
      one.tiles = static_cast<uint16_t>(1u << tile);
      for (Where where : ways) {
        SCOPED_TRACE(fmt::format("tile {}", tile));
        check(one, where);
      }
    }
  }
}

TEST(cuda_product_emulated, large_tiles_equal_sums) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  check_large_tiles(std::array{Where::early_groups, Where::late_groups});
}

TEST(cuda_product, large_tiles_equal_sums) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  check_large_tiles(std::array{Where::gpu});
}

TEST(cuda_product, equals_sums) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Site& s : sites()) check(s, Where::gpu);
  for (bool along_k : {false, true}) {
    check(plain(1030, 1160, 520, along_k), Where::gpu);  // large tiles, several blocks per multiprocessor
    check(plain(300, 72, 4104, along_k, DType::bf16), Where::gpu);
  }
  check(plain(1, 4104, 2056, true), Where::gpu);
  for (Made made : {Made::gated, Made::norm}) {
    for (int64_t k : {4096, 8192}) {
      Site row = plain(1, 4104, k, true, DType::bf16);
      row.made = made;
      check(row, Where::gpu);
    }
  }
  for (Made made : {Made::no, Made::norm}) {
    Site gated = plain(1, 8208, 4096, true, DType::bf16);
    gated.n = 4104;
    gated.halves = true;
    gated.made = made;
    check(gated, Where::gpu);
  }
  Site apart = plain(1, 6144, 4096, true, DType::bf16);
  apart.apart = {4096, 1024, 1024};
  apart.made = Made::norm;
  check(apart, Where::gpu);
  check(convolution(56, 56, 64, 3, 1, 1, 136, false), Where::gpu);
}

}  // namespace
}  // namespace ingot::backend::cuda
