// Fused bodies against a scalar evaluation of each primitive in double or int64.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "backend/cpu/compile/body_builder_test.h"
#include "base/error.h"
#include "base/parallel.h"
#include "ir/half.h"
#include "ir/scalar_functions.h"

namespace ingot::backend::cpu {
namespace {

using ir::DType;
using ir::Op;

constexpr DType all_types[] = {DType::b8, DType::u8, DType::i8, DType::i16, DType::i32, DType::i64, DType::f16, DType::bf16, DType::f32, DType::f64};

using Number = ir::Element;

Number get(DType t, const std::byte* p) {
  auto as = [&](auto v) {
    std::memcpy(&v, p, sizeof v);
    return v;
  };
  switch (t) {
    case DType::b8:
    case DType::u8: return {0, as(uint8_t{})};
    case DType::i8: return {0, as(int8_t{})};
    case DType::i16: return {0, as(int16_t{})};
    case DType::i32: return {0, as(int32_t{})};
    case DType::i64: return {0, as(int64_t{})};
    case DType::f16: return {ir::f16_to_float(as(uint16_t{})), 0};
    case DType::bf16: return {ir::bf16_to_float(as(uint16_t{})), 0};
    case DType::f32: return {as(float{}), 0};
    default: return {as(double{}), 0};
  }
}

void put(DType t, std::byte* p, Number n) {
  auto as = [&](auto v) { std::memcpy(p, &v, sizeof v); };
  switch (t) {
    case DType::b8: return as(static_cast<uint8_t>(n.i != 0));
    case DType::u8:
    case DType::i8: return as(static_cast<uint8_t>(n.i));
    case DType::i16: return as(static_cast<int16_t>(n.i));
    case DType::i32: return as(static_cast<int32_t>(n.i));
    case DType::i64: return as(n.i);
    case DType::f16: return as(ir::float_to_f16(static_cast<float>(n.f)));
    case DType::bf16: return as(ir::float_to_bf16(static_cast<float>(n.f)));
    case DType::f32: return as(static_cast<float>(n.f));
    default: return as(n.f);
  }
}

Number rounded(DType t, Number n) {
  std::byte bytes[8];
  put(t, bytes, n);
  return get(t, bytes);
}

struct Tensor {
  DType dtype;
  std::vector<int64_t> dims, strides;
  std::vector<std::byte> bytes;

  Tensor(DType t, std::vector<int64_t> d, int64_t gap = 1) : dtype(t), dims(std::move(d)), strides(dims.size(), gap) {
    for (size_t k = dims.size(); k-- > 1;) strides[k - 1] = strides[k] * dims[k];
    int64_t n = gap;
    for (int64_t x : dims) n *= std::max<int64_t>(x, 1);
    bytes.resize(static_cast<size_t>(n) * ir::size_of(t));
  }
  // Axes of size 1 broadcast.
  std::byte* at(const std::vector<int64_t>& where) {
    int64_t o = 0;
    for (size_t k = 0; k < dims.size(); ++k) o += dims[k] == 1 ? 0 : where[k] * strides[k];
    return bytes.data() + o * static_cast<int64_t>(ir::size_of(dtype));
  }
  FusedStep::View view() {
    std::vector<int64_t> s = strides;
    for (size_t k = 0; k < dims.size(); ++k) {
      if (dims[k] == 1) s[k] = 0;
    }
    return {bytes.data(), dims, s};
  }
};

void fill(Tensor& t, std::mt19937& random, bool small) {
  size_t size = ir::size_of(t.dtype);
  const double special[] = {0.0, -0.0, 1, -1, 0.5, -2.5, INFINITY, -INFINITY, NAN, 3, 100, -100};
  for (size_t k = 0; k * size < t.bytes.size(); ++k) {
    Number n;
    n.i = small ? static_cast<int64_t>(random() % 5) + 1 : static_cast<int64_t>(random()) << (random() % 32);
    n.f = random() % 8 == 0 ? special[random() % 12] : (static_cast<double>(random()) / 4294967296.0 - 0.5) * (random() % 2 ? 4 : 30);
    put(t.dtype, t.bytes.data() + k * size, n);
  }
}

void expect_same(Op op, DType t, Number got, Number want, const std::vector<Number>& in) {
  if (!ir::is_float(t)) {
    EXPECT_EQ(got.i, want.i) << ir::name_of(op) << " " << ir::name_of(t) << " of " << in[0].i << " " << (in.size() > 1 ? in[1].i : 0);
    return;
  }
  std::string text = fmt::format("{} {} of {} {}: {} instead of {}", ir::name_of(op), ir::name_of(t), in[0].f, in.size() > 1 ? in[1].f : 0, got.f, want.f);
  if (std::isnan(want.f)) {
    EXPECT_TRUE(std::isnan(got.f)) << text;
    return;
  }
  if (std::isinf(want.f) || want.f == 0) {
    // An underflow may be subnormal or 0.
    bool tiny = want.f == 0 && std::fabs(got.f) < 1e-37;
    EXPECT_TRUE(got.f == want.f || tiny) << text;
    if (want.f == 0 && got.f == 0 && ir::cost_of(op) == ir::Cost::cheap && !(op >= Op::min && op <= Op::fmax)) {  // min and max take either zero
      EXPECT_EQ(std::signbit(got.f), std::signbit(want.f)) << text;
    }
    return;
  }
  double eps = t == DType::f64 ? 2.3e-16 : t == DType::f32 ? 1.2e-7 : t == DType::f16 ? 9.8e-4 : 7.9e-3;
  // Bounded functions approach 1: the error is relative to that.
  bool bounded = op == Op::erf || op == Op::tanh;
  // gelu is x times a function that approaches 1.
  double size = op == Op::gelu || op == Op::gelu_tanh ? std::max(1.0, std::fabs(in[0].f)) : bounded ? std::max(1.0, std::fabs(want.f)) : std::fabs(want.f);
  EXPECT_LE(std::fabs(got.f - want.f), 3 * eps * size + 1e-37) << text;
}

struct Shape {
  const char* name;
  std::vector<int64_t> dims;
  int64_t gap;
};

// Every primitive but casts on each of its dtypes, with operands that are contiguous, strided, rows, columns and single numbers.
TEST(fused, primitives) {
  std::mt19937 random(1);
  const int64_t rows = 3, columns = 77;
  const Shape shapes[] = {{"contiguous", {rows, columns}, 1}, {"strided", {rows, columns}, 3}, {"row", {1, columns}, 1}, {"column", {rows, 1}, 1}, {"number", {1, 1}, 1}};
  int cases = 0;
  for (size_t o = 0; o < ir::op_count; ++o) {
    Op op = static_cast<Op>(o);
    if (!ir::is_map(op) || ir::result_of(op) == ir::ResultType::attribute) continue;
    auto arity = static_cast<size_t>(ir::arity_of(op));
    for (DType t : all_types) {
      if (!ir::takes(op, t)) continue;
      for (const Shape& a : shapes) {
        for (const Shape& b : shapes) {
          if (arity == 1 && &b != &shapes[0]) continue;
          if (ir::size_of(t) != 4 && &a != &shapes[0] && &b != &shapes[0]) continue;  // fewer of the other dtypes
          bool test = ir::result_of(op) == ir::ResultType::boolean;
          // Operands 0 and 2 have shape a, operand 1 has shape b.
          std::vector<DType> from(arity, t);
          if (op == Op::select) from[0] = DType::b8;
          std::vector<Tensor> in;
          for (size_t k = 0; k < arity; ++k) in.emplace_back(from[k], k % 2 == 0 ? a.dims : b.dims, k % 2 == 0 ? a.gap : b.gap);
          Tensor out(test ? DType::b8 : t, {rows, columns});
          // Divisors, shifts and powers of integers are small and not 0.
          bool power = op == Op::pow || op == Op::gcd, divides = power || (op >= Op::truncdiv && op <= Op::fmod) || op == Op::shift_left || op == Op::shift_right;
          for (size_t k = 0; k < arity; ++k) fill(in[k], random, k == 0 ? power : divides);
          BodyBuilder k({rows}, {columns});
          std::vector<Reg> loads;
          for (DType x : from) loads.push_back(k.load(x));
          k.store(out.dtype, k.map(op, test ? DType::b8 : ir::compute_type(t), loads));
          std::vector<FusedStep::View> views;
          for (Tensor& x : in) views.push_back(x.view());
          views.push_back(out.view());
          FusedStep(k.body, views, inline_workers()).run();
          for (int64_t r = 0; r < rows; ++r) {
            for (int64_t c = 0; c < columns; ++c) {
              std::vector<Number> arguments;
              for (size_t x = 0; x < arity; ++x) arguments.push_back(get(from[x], in[x].at({r, c})));
              const Number want = ir::map_element(op, out.dtype, from, arguments);
              expect_same(op, out.dtype, get(out.dtype, out.at({r, c})), rounded(out.dtype, want), arguments);
              if (testing::Test::HasFailure()) FAIL() << a.name << " and " << b.name;
            }
          }
          ++cases;
        }
      }
    }
  }
  EXPECT_GT(cases, 1500);
}

TEST(fused, casts) {
  std::mt19937 random(2);
  for (DType from : all_types) {
    for (DType to : all_types) {
      Tensor x(from, {4, 33}), out(to, {4, 33});
      fill(x, random, false);
      if (ir::is_float(from)) {  // values that do not fit an integer are undefined
        for (size_t k = 0; k < 4 * 33; ++k) put(from, x.bytes.data() + k * ir::size_of(from), {static_cast<double>(k) * (ir::is_float(to) || to == DType::b8 ? -0.7 : 0.7), 0});
      }
      BodyBuilder k({4}, {33});
      k.store(to, k.map(Op::cast, to, {k.load(from)}));
      FusedStep(k.body, {x.view(), out.view()}, inline_workers()).run();
      for (int64_t i = 0; i < 4 * 33; ++i) {
        Number n = get(from, x.at({i / 33, i % 33})), want;
        if (ir::is_float(from)) {
          want = {n.f, to == DType::b8 ? n.f != 0 : static_cast<int64_t>(ir::is_float(to) ? 0 : n.f)};
        } else {
          want = {static_cast<double>(n.i), n.i};
        }
        want = rounded(to, want);
        Number got = get(to, out.at({i / 33, i % 33}));
        EXPECT_TRUE(ir::is_float(to) ? got.f == want.f : got.i == want.i) << ir::name_of(from) << " to " << ir::name_of(to) << " of " << n.f << " " << n.i;
      }
    }
  }
}

TEST(fused, bitcasts) {
  std::mt19937 random(3);
  const std::pair<DType, DType> pairs[] = {{DType::f16, DType::i16}, {DType::bf16, DType::i16}, {DType::f32, DType::i32}, {DType::f64, DType::i64}};
  for (const auto& [number, bits] : pairs) {
    for (const bool reads : {true, false}) {
      for (const std::vector<int64_t>& dims : {std::vector<int64_t>{4, 33}, {1, 1}}) {
        const DType from = reads ? number : bits, to = reads ? bits : number;
        Tensor x(from, dims), out(to, {4, 33});
        fill(x, random, false);
        BodyBuilder k({4}, {33});
        Reg r = k.load(from);
        if (reads && number != ir::compute_type(number)) r = k.map(Op::cast, number, {r});
        k.store(to, k.map(Op::bitcast, to, {r}));
        FusedStep(k.body, {x.view(), out.view()}, inline_workers()).run();
        for (int64_t i = 0; i < 4 * 33; ++i) {
          EXPECT_EQ(std::memcmp(dims[0] == 1 ? x.at({0, 0}) : x.at({i / 33, i % 33}), out.at({i / 33, i % 33}), ir::size_of(to)), 0)
              << ir::name_of(from) << " to " << ir::name_of(to);
        }
      }
    }
  }
}

// Rows from one element to more than a block, and instructions that run as one pass.
class Rows : public testing::TestWithParam<int64_t> {};

std::vector<double> doubles(Tensor& t) {
  std::vector<double> out;
  for (size_t k = 0; k * ir::size_of(t.dtype) < t.bytes.size(); ++k) out.push_back(get(t.dtype, t.bytes.data() + k * ir::size_of(t.dtype)).f);
  return out;
}

void fill_plain(Tensor& t, int seed) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  for (size_t k = 0; k * ir::size_of(t.dtype) < t.bytes.size(); ++k) put(t.dtype, t.bytes.data() + k * ir::size_of(t.dtype), {static_cast<double>(random()) / 1e9 - 2, 0});
}

TEST_P(Rows, softmax_with_masked_keys) {
  int64_t n = GetParam();
  Tensor x(DType::f32, {3, n}), out(DType::f32, {3, n});
  fill_plain(x, 1);
  if (n > 3) put(DType::f32, x.at({1, 2}), {-INFINITY, 0});
  BodyBuilder k({3}, {n});
  Reg a = k.load(DType::f32), e = k.map(Op::exp, DType::f32, {k.map(Op::sub, DType::f32, {a, k.reduce(Reduction::max, DType::f32, a)})});
  k.store(DType::f32, k.map(Op::div, DType::f32, {e, k.reduce(Reduction::sum, DType::f32, e)}));
  FusedStep(k.body, {x.view(), out.view()}, inline_workers()).run();
  std::vector<double> v = doubles(x), got = doubles(out);
  for (int64_t r = 0; r < 3; ++r) {
    double m = -INFINITY, sum = 0;
    for (int64_t c = 0; c < n; ++c) m = std::max(m, v[static_cast<size_t>(r * n + c)]);
    for (int64_t c = 0; c < n; ++c) sum += std::exp(v[static_cast<size_t>(r * n + c)] - m);
    for (int64_t c = 0; c < n; ++c) {
      double want = std::exp(v[static_cast<size_t>(r * n + c)] - m) / sum;
      ASSERT_NEAR(got[static_cast<size_t>(r * n + c)], want, 5e-7 * want) << r << "," << c;
    }
  }
}

TEST_P(Rows, layer_norm) {
  int64_t n = GetParam();
  Tensor x(DType::f32, {2, n}), w(DType::f32, {1, n}), b(DType::f32, {1, n}), out(DType::f32, {2, n});
  fill_plain(x, 1);
  fill_plain(w, 2);
  fill_plain(b, 3);
  BodyBuilder k({2}, {n});
  const auto f = DType::f32;
  Reg a = k.load(f), wr = k.load(f), br = k.load(f), count = k.number(static_cast<double>(n), f);
  Reg c = k.map(Op::sub, f, {a, k.map(Op::div, f, {k.reduce(Reduction::sum, f, a), count})});
  Reg v = k.map(Op::div, f, {k.reduce(Reduction::sum, f, k.map(Op::mul, f, {c, c})), count});
  Reg s = k.map(Op::rsqrt, f, {k.map(Op::add, f, {v, k.number(1e-5, f)})});
  k.store(f, k.map(Op::add, f, {k.map(Op::mul, f, {k.map(Op::mul, f, {c, s}), wr}), br}));
  FusedStep(k.body, {x.view(), w.view(), b.view(), out.view()}, inline_workers()).run();
  std::vector<double> xs = doubles(x), ws = doubles(w), bs = doubles(b), got = doubles(out);
  for (size_t r = 0; r < 2; ++r) {
    auto row = static_cast<size_t>(n);
    double mean = 0, square = 0;
    for (size_t i = 0; i < row; ++i) mean += xs[r * row + i] / static_cast<double>(n);
    for (size_t i = 0; i < row; ++i) square += (xs[r * row + i] - mean) * (xs[r * row + i] - mean) / static_cast<double>(n);
    for (size_t i = 0; i < row; ++i) ASSERT_NEAR(got[r * row + i], (xs[r * row + i] - mean) / std::sqrt(square + 1e-5) * ws[i] + bs[i], 5e-6) << i;
  }
}

// Sums of floats in double: plain, about their mean, of values with and without other readers, and of loads.
TEST_P(Rows, sums_in_double) {
  int64_t n = GetParam();
  const auto f = DType::f32, d = DType::f64;
  Tensor x(f, {2, n}), wide(d, {2, n}), kept(d, {2, n});
  fill_plain(x, 1);
  fill_plain(wide, 2);
  for (int64_t r = 0; r < 2; ++r) put(f, x.at({r, n - 1}), {3e38, 0});  // its square overflows f32
  BodyBuilder k({2}, {n});
  Reg a = k.load(f), w = k.load(d), count = k.number(static_cast<double>(n), d), half = k.map(Op::mul, f, {a, k.number(0.5, f)});
  Reg as = k.map(Op::cast, d, {a}), halves = k.map(Op::cast, d, {half});
  auto about_mean = [&](Reg v) {
    Reg c = k.map(Op::sub, d, {v, k.map(Op::div, d, {k.reduce(Reduction::sum, d, v), count})});
    return k.reduce(Reduction::sum, d, k.map(Op::mul, d, {c, c}));
  };
  const Reg results[] = {k.reduce(Reduction::sum, d, as), about_mean(as), about_mean(halves), about_mean(w), k.reduce(Reduction::sum, d, k.map(Op::mul, d, {as, as})),
                         k.reduce(Reduction::sum, d, w)};
  for (Reg r : results) k.store(d, r);
  k.store(d, as);  // read by a sum and by a store
  std::vector<Tensor> sums(6, Tensor(d, {2, 1}));
  FusedStep(k.body, {x.view(), wide.view(), sums[0].view(), sums[1].view(), sums[2].view(), sums[3].view(), sums[4].view(), sums[5].view(), kept.view()}, inline_workers()).run();
  auto moment = [&](Tensor& t, size_t r, double scale, double about, int power) {
    std::vector<double> v = doubles(t);
    long double s = 0;
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) s += std::pow(static_cast<long double>(v[r * static_cast<size_t>(n) + i]) * scale - about, power);
    return static_cast<double>(s);
  };
  for (size_t r = 0; r < 2; ++r) {
    const double sum = moment(x, r, 1, 0, 1), mean = sum / static_cast<double>(n), other = moment(wide, r, 1, 0, 1);
    const double want[] = {sum, moment(x, r, 1, mean, 2), moment(x, r, 0.5, mean / 2, 2), moment(wide, r, 1, other / static_cast<double>(n), 2), moment(x, r, 1, 0, 2), other};
    for (size_t s = 0; s < 6; ++s) ASSERT_NEAR(doubles(sums[s])[r], want[s], 1e-12 * std::abs(want[s]) + 1e-9) << s;
  }
  EXPECT_EQ(doubles(kept), doubles(x));
}

TEST_P(Rows, activations_with_neighbours) {
  int64_t n = GetParam();
  const auto f = DType::f32;
  for (Op op : {Op::gelu, Op::gelu_tanh, Op::silu, Op::relu, Op::tanh, Op::sigmoid}) {
    for (int form = 0; form < 8; ++form) {  // bit 0: bias, 1: factor, 2: residual
      Tensor x(f, {2, n}), b(f, {1, n}), y(f, {2, 1}), r(f, {2, n}), out(f, {2, n});
      fill_plain(x, form);
      fill_plain(b, form + 9);
      fill_plain(y, form + 20);
      fill_plain(r, form + 30);
      BodyBuilder k({2}, {n});
      Reg a = k.load(f), br = k.load(f), yr = k.load(f), rr = k.load(f), v = a;
      if (form & 1) v = k.map(Op::add, f, {br, v});
      v = k.map(op, f, {v});
      if (form & 2) v = k.map(Op::mul, f, {yr, v});
      if (form & 4) v = k.map(Op::add, f, {v, rr});
      k.store(f, v);
      FusedStep(k.body, {x.view(), b.view(), y.view(), r.view(), out.view()}, inline_workers()).run();
      for (int64_t i = 0; i < 2 * n; ++i) {
        std::vector<int64_t> at = {i / n, i % n};
        double want = get(f, x.at(at)).f;
        if (form & 1) want += get(f, b.at(at)).f;
        want = ir::float_unary(op, want);
        if (form & 2) want *= get(f, y.at(at)).f;
        if (form & 4) want += get(f, r.at(at)).f;
        ASSERT_NEAR(get(f, out.at(at)).f, want, 2e-6) << ir::name_of(op) << " form " << form << " at " << i;
      }
    }
  }
}

// A value that is read twice stays right if one of its users is fused with other instructions.
TEST_P(Rows, a_difference_with_two_uses) {
  int64_t n = GetParam();
  const auto f = DType::f32;
  Tensor x(f, {2, n}), out(f, {2, n}), other(f, {2, n});
  fill_plain(x, 4);
  BodyBuilder k({2}, {n});
  Reg a = k.load(f), m = k.reduce(Reduction::max, f, a), shifted = k.map(Op::sub, f, {a, m});
  Reg total = k.reduce(Reduction::sum, f, k.map(Op::exp, f, {shifted}));
  Reg doubled = k.map(Op::mul, f, {shifted, k.number(2.0, f)});
  Reg result = k.map(Op::sub, f, {shifted, k.map(Op::log, f, {total})});
  k.store(f, doubled);
  k.store(f, result);
  FusedStep(k.body, {x.view(), other.view(), out.view()}, inline_workers()).run();
  std::vector<double> v = doubles(x), got = doubles(out), twice = doubles(other);
  for (size_t r = 0; r < 2; ++r) {
    double top = -INFINITY, sum = 0;
    auto row = static_cast<size_t>(n);
    for (size_t i = 0; i < row; ++i) top = std::max(top, v[r * row + i]);
    for (size_t i = 0; i < row; ++i) sum += std::exp(v[r * row + i] - top);
    for (size_t i = 0; i < row; ++i) {
      ASSERT_NEAR(got[r * row + i], v[r * row + i] - top - std::log(sum), 2e-6);
      ASSERT_NEAR(twice[r * row + i], 2 * (v[r * row + i] - top), 1e-6);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(lengths, Rows, testing::Values(1, 2, 7, 16, 33, 128, 768, 1025, 40000));

// A value that is constant along the row is read even for an empty row.
TEST(fused, load_next_to_an_empty_row) {
  const auto f = DType::f32, h = DType::f16;
  for (std::vector<int64_t> row : {std::vector<int64_t>{0}, {3, 0}, {0, 3}}) {
    std::vector<int64_t> one(row.size(), 1), whole = row;
    one.insert(one.begin(), 2);
    whole.insert(whole.begin(), 2);
    Tensor x(h, one), y(f, whole), z(f, whole), out(f, one);
    fill_plain(x, 1);
    BodyBuilder k({2}, row);
    Reg a = k.load(h), b = k.load(f), c = k.load(f);
    k.store(f, k.map(Op::add, f, {k.reduce(Reduction::sum, f, k.map(Op::mul, f, {b, c})), a}));
    auto transposed = z.view();
    std::reverse(transposed.strides.begin(), transposed.strides.end());  // so that the axes are not merged
    FusedStep(k.body, {x.view(), y.view(), transposed, out.view()}, inline_workers()).run();
    EXPECT_EQ(doubles(out), doubles(x));
  }
}

// `transposed`: rows are strided, so that many are reduced at once.
void reductions(int64_t rows, bool transposed) {
  std::mt19937 random(3);
  for (DType t : {DType::b8, DType::i32, DType::i64, DType::f32, DType::f64}) {
    for (int kind = 0; kind <= static_cast<int>(Reduction::argmin); ++kind) {
      auto r = static_cast<Reduction>(kind);
      bool logic = r == Reduction::any || r == Reduction::all, arg = r == Reduction::argmax || r == Reduction::argmin;
      if (logic != (t == DType::b8)) continue;
      for (int64_t n : {0, 1, 5, 64, 700}) {
        if (n == 0 && (arg || ((r == Reduction::max || r == Reduction::min) && !ir::is_float(t)))) continue;  // refused before
        Tensor x(t, {rows, n}), out(arg ? DType::i64 : t, {rows, 1});
        if (transposed) x.strides = {1, rows};
        fill(x, random, true);
        for (int64_t c = 0; c < n; ++c) {
          for (int64_t row = 0; row < rows; ++row)
            put(t, x.at({row, c}),
                {static_cast<double>(random() % 64) / 16 - 1,
                 t == DType::b8 ? static_cast<int64_t>((random() + static_cast<uint32_t>(row)) % 4 > static_cast<uint32_t>(row % 4)) : static_cast<int64_t>(random() % 9)});
        }
        if (n > 5 && ir::is_float(t)) put(t, x.at({2, 3}), {NAN, 0});
        BodyBuilder k({rows}, {n});
        Reg a = k.load(t);
        k.store(out.dtype, k.reduce(r, arg ? DType::i64 : t, a));
        FusedStep(k.body, {x.view(), out.view()}, inline_workers()).run();
        for (int64_t row = 0; row < rows; ++row) {
          Number want;
          bool top = r == Reduction::max || r == Reduction::argmax, prod = r == Reduction::prod;
          want.f = prod ? 1 : r == Reduction::max ? -INFINITY : r == Reduction::min ? INFINITY : 0;
          want.i = prod || r == Reduction::all;
          Number best;
          for (int64_t c = 0; c < n; ++c) {
            Number v = get(t, x.at({row, c}));
            bool better = c == 0 || (ir::is_float(t) ? !std::isnan(best.f) && (std::isnan(v.f) || (top ? v.f > best.f : v.f < best.f)) : top ? v.i > best.i : v.i < best.i);
            if (better) best = v;
            if (arg && better) want.i = c;
            if (r == Reduction::max || r == Reduction::min) want = best;
            if (r == Reduction::sum) want = {want.f + v.f, want.i + v.i};
            if (prod) want = {want.f * v.f, static_cast<int64_t>(static_cast<uint64_t>(want.i) * static_cast<uint64_t>(v.i))};
            if (r == Reduction::any) want.i |= v.i;
            if (r == Reduction::all) want.i &= v.i;
          }
          want = rounded(out.dtype, want);
          Number got = get(out.dtype, out.at({row, 0}));
          std::string text = fmt::format("{} reduction {} of {}: {} {} instead of {} {}", ir::name_of(t), kind, n, got.f, got.i, want.f, want.i);
          if (!ir::is_float(out.dtype)) {
            EXPECT_EQ(got.i, want.i) << text;
          } else {
            EXPECT_TRUE(std::isnan(want.f) ? std::isnan(got.f) : got.f == want.f || std::fabs(got.f - want.f) <= 1e-6 * std::fabs(want.f)) << text;
          }
        }
      }
    }
  }
}

TEST(fused, reductions) { reductions(4, false); }

TEST(fused, reductions_across_rows) {
  reductions(70, false);
  reductions(70, true);
  reductions(600, true);
}

// Long sums are taken in parts: as exact as one sum, and with the same bits for any number of threads and of rows.
TEST(fused, long_sums_across_rows) {
  const auto f = DType::f32;
  for (int64_t n : {49, 200, 784}) {
    const int64_t columns = 350, rows = 2;
    Tensor x(f, {rows, columns, n});
    x.strides = {columns * n, 1, columns};
    fill_plain(x, 7);
    auto sums = [&](int64_t of, Workers& workers) {
      Tensor out(f, {of, columns, 1});
      BodyBuilder k({of, columns}, {n});
      k.store(f, k.map(Op::mul, f, {k.reduce(Reduction::sum, f, k.load(f)), k.number(0.5, f)}));
      auto in = x.view();
      in.dims[0] = of;
      if (of == 1) in.strides[0] = 0;
      FusedStep(k.body, {in, out.view()}, workers).run();
      return out;
    };
    Tensor one = sums(rows, inline_workers());
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        double want = 0;
        for (int64_t i = 0; i < n; ++i) want += get(f, x.at({r, c, i})).f;
        ASSERT_NEAR(get(f, one.at({r, c, 0})).f, 0.5 * want, 1e-5 * static_cast<double>(n)) << n << " at " << r << ", " << c;
      }
    }
    for (int threads : {2, 3, 5}) EXPECT_EQ(sums(rows, *make_pool(threads)).bytes, one.bytes) << threads;
    const Tensor alone = sums(1, inline_workers());
    EXPECT_TRUE(std::equal(alone.bytes.begin(), alone.bytes.end(), one.bytes.begin()));
  }
}

// Weights, a mask, or neither; the same for all columns or not.
TEST(fused, weighed_sums_across_rows) {
  const auto f = DType::f32;
  const int64_t n = 9, columns = 530;
  for (int form = 0; form < 16; ++form) {
    const bool weighs = (form & 1) != 0, masks = (form & 2) != 0;
    Tensor x(f, {columns, n}), w(f, {(form & 4) != 0 ? 1 : columns, n}), c(DType::b8, {(form & 8) != 0 ? 1 : columns, n}), out(f, {columns, 1});
    fill_plain(x, 4);
    fill_plain(w, 5);
    x.strides = {1, columns};
    for (size_t e = 0; e < c.bytes.size(); ++e) c.bytes[e] = static_cast<std::byte>(e % 3 == 0);
    if (masks) put(f, x.at({1, 1}), {INFINITY, 0});  // element 10 or 1 of the mask: left out
    BodyBuilder k({columns}, {n});
    Reg a = k.load(f), b = k.load(f), m = k.load(DType::b8), v = a;
    if (weighs) v = k.map(Op::mul, f, {v, b});
    if (masks) v = k.map(Op::select, f, {m, v, k.number(0.0, f)});
    k.store(f, k.reduce(Reduction::sum, f, v));
    FusedStep(k.body, {x.view(), w.view(), c.view(), out.view()}, inline_workers()).run();
    for (int64_t col = 0; col < columns; ++col) {
      double want = 0;
      for (int64_t r = 0; r < n; ++r) {
        if (!masks || get(DType::b8, c.at({col, r})).i != 0) want += get(f, x.at({col, r})).f * (weighs ? get(f, w.at({col, r})).f : 1);
      }
      ASSERT_NEAR(get(f, out.at({col, 0})).f, want, 1e-5) << form << " at " << col;
    }
  }
}

// Sums of rows that are looked up, as in a bag of embeddings, also with a factor for each and with more work after them.
TEST(fused, sums_of_rows_that_are_looked_up) {
  const auto f = DType::f32;
  const int64_t bags = 40, length = 7, rows = 50;
  for (const int64_t columns : {1, 8, 13, 64, 135, 300}) {
    for (int form = 0; form < 4; ++form) {
      const bool weighs = (form & 1) != 0, more = (form & 2) != 0;
      Tensor at(DType::i64, {bags, 1, length}), x(f, {rows, columns}), w(f, {bags, 1, length}), out(f, {bags, columns, 1});
      for (int64_t b = 0; b < bags; ++b) {
        for (int64_t l = 0; l < length; ++l) put(DType::i64, at.at({b, 0, l}), {0, (b * 31 + l * 17) % rows});
      }
      fill_plain(x, 4);
      fill_plain(w, 5);
      BodyBuilder k({bags, columns}, {length});
      const Reg index = k.load(DType::i64), row = k.load(f, {index}), factor = k.load(f);
      Reg y = k.reduce(Reduction::sum, f, weighs ? k.map(Op::mul, f, {row, factor}) : row);
      if (more) y = k.map(Op::add, f, {y, k.number(1.0, f)});
      k.store(f, y);
      const FusedStep::View table{x.view().data, {1, columns, 1, rows}, {0, 1, 0, columns}};
      auto threads = make_pool(2);
      FusedStep(k.body, {at.view(), table, w.view(), out.view()}, *threads).run();
      for (int64_t b = 0; b < bags; ++b) {
        for (int64_t c = 0; c < columns; ++c) {
          double want = more ? 1 : 0;
          for (int64_t l = 0; l < length; ++l) want += get(f, x.at({(b * 31 + l * 17) % rows, c})).f * (weighs ? get(f, w.at({b, 0, l})).f : 1);
          ASSERT_NEAR(get(f, out.at({b, c, 0})).f, want, 1e-5) << form << " in bag " << b << ", column " << c << " of " << columns;
        }
      }
      put(DType::i64, at.at({3, 0, 2}), {0, rows});
      EXPECT_THROW(FusedStep(k.body, {at.view(), table, w.view(), out.view()}, *threads).run(), Error);
    }
  }
}

// Several stages across rows: softmax along a strided axis, and its sums.
TEST(fused, softmax_across_rows) {
  const auto f = DType::f32;
  const int64_t n = 9, columns = 530;
  Tensor x(f, {2, n, columns}), out(f, {2, n, columns}), sums(f, {2, n, columns});
  fill_plain(x, 4);
  auto view = [](Tensor& t, bool once) {  // [2, columns, n]
    FusedStep::View v = t.view();
    return FusedStep::View{v.data, {2, columns, once ? 1 : n}, {v.strides[0], v.strides[2], once ? 0 : v.strides[1]}};
  };
  BodyBuilder k({2, columns}, {n});
  Reg a = k.load(f), e = k.map(Op::exp, f, {k.map(Op::sub, f, {a, k.reduce(Reduction::max, f, a)})}), sum = k.reduce(Reduction::sum, f, e);
  k.store(f, k.map(Op::div, f, {e, sum}));
  k.store(f, sum);
  FusedStep(k.body, {view(x, false), view(out, false), view(sums, true)}, inline_workers()).run();
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t c = 0; c < columns; ++c) {
      double top = -INFINITY, total = 0;
      for (int64_t r = 0; r < n; ++r) top = std::max(top, get(f, x.at({b, r, c})).f);
      for (int64_t r = 0; r < n; ++r) total += std::exp(get(f, x.at({b, r, c})).f - top);
      ASSERT_NEAR(get(f, sums.at({b, 0, c})).f, total, 1e-5);
      for (int64_t r = 0; r < n; ++r) ASSERT_NEAR(get(f, out.at({b, r, c})).f, std::exp(get(f, x.at({b, r, c})).f - top) / total, 1e-6);
    }
  }
}

// The copy after a channel shuffle: parts of a row are taken alternately, element by element.
TEST(fused, shuffled_rows) {
  for (int64_t parts : {2, 3, 4}) {
    for (int64_t n : {1, 5, 8, 15, 16, 17, 33, 58, 64, 100, 130}) {
      Tensor in(DType::f32, {3, 4, parts * n}), out(DType::f32, {3, 4, parts * n + 1});
      fill_plain(in, static_cast<unsigned>(n));
      fill_plain(out, 0);
      const auto behind = get(DType::f32, out.at({2, 3, parts * n})).f;
      BodyBuilder k({3, 4, n}, {parts});
      k.store(DType::f32, k.load(DType::f32));
      const int64_t row = parts * n;
      const FusedStep::View from{in.bytes.data(), {3, 4, n, parts}, {4 * row, row, 1, n}}, to{out.bytes.data(), {3, 4, n, parts}, {4 * (row + 1), row + 1, parts, 1}};
      FusedStep(k.body, {from, to}, inline_workers()).run();
      for (int64_t i = 0; i < 3; ++i) {
        for (int64_t j = 0; j < 4; ++j) {
          for (int64_t c = 0; c < row; ++c) ASSERT_EQ(get(DType::f32, out.at({i, j, c})).f, get(DType::f32, in.at({i, j, c % parts * n + c / parts})).f) << parts << " " << n;
        }
      }
      EXPECT_EQ(get(DType::f32, out.at({2, 3, row})).f, behind);
    }
  }
}

TEST(fused, gathered_rows_and_elements) {
  Tensor table(DType::f32, {5, 40}), index(DType::i64, {3, 1}), out(DType::f32, {3, 40});
  fill_plain(table, 1);
  for (int64_t r = 0; r < 3; ++r) put(DType::i64, index.at({r, 0}), {0, 4 - 2 * r});
  BodyBuilder k({3}, {40});
  Reg i = k.load(DType::i64);
  k.store(DType::f32, k.load(DType::f32, {i}));
  FusedStep::View rows{table.bytes.data(), {1, 40, 5}, {0, 1, 40}};
  FusedStep step(k.body, {index.view(), rows, out.view()}, inline_workers());
  step.run();
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t c = 0; c < 40; ++c) EXPECT_EQ(get(DType::f32, out.at({r, c})).f, get(DType::f32, table.at({4 - 2 * r, c})).f);
  }
  put(DType::i64, index.at({1, 0}), {0, 5});
  try {
    step.run();
    FAIL() << "an index out of range was accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.message, "index 5 is out of range for an axis of size 5");
  }
}

// Values that depend on some axes are computed once over these: numbers of two axes, and an index and weights read from memory.
TEST(fused, parts_over_some_axes) {
  const auto f = DType::f32;
  for (DType of_index : {DType::i64, DType::i32, DType::u8}) {
    for (DType of_table : {DType::f32, DType::f16, DType::f64, DType::i16, DType::b8}) {
      for (bool transposed : {false, true}) {
        const int64_t h = 13, w = 45, c = 70;
        Tensor index(of_index, {1, w, 1}), weight(f, {h, w, 1}), table(of_table, {h, 1, c, 31}), out(f, {h, w, c});
        for (int64_t j = 0; j < w; ++j) put(of_index, index.at({0, j, 0}), {0, j * 7 % 31});
        fill_plain(weight, 1);
        std::mt19937 random(7);
        fill(table, random, true);
        if (transposed) out.strides = {w * c, 1, w};
        BodyBuilder k({h, w}, {c});
        Reg i = k.load(of_index), s = k.load(f);
        Reg number = k.map(Op::cast, f, {k.map(Op::add, DType::i64, {k.map(Op::mul, DType::i64, {k.index(0), k.number(int64_t{3}, DType::i64)}), k.index(1)})});
        Reg at = k.map(Op::min, DType::i64, {k.map(Op::cast, DType::i64, {i}), k.number(int64_t{30}, DType::i64)});
        Reg x = k.map(Op::cast, f, {k.load(of_table, {at})});
        k.store(f, k.map(Op::add, f, {k.map(Op::mul, f, {x, k.map(Op::exp, f, {s})}), number}));
        FusedStep::View lines{table.bytes.data(), {h, 1, c, 31}, {c * 31, 0, 31, 1}};
        auto threads = make_pool(2);
        FusedStep(k.body, {index.view(), weight.view(), lines, out.view()}, *threads).run();
        for (int64_t a = 0; a < h; ++a) {
          for (int64_t j = 0; j < w; ++j) {
            for (int64_t b = 0; b < c; ++b) {
              Number v = get(of_table, table.at({a, 0, b, j * 7 % 31}));
              const double read = ir::is_float(of_table) ? static_cast<float>(v.f) : static_cast<double>(of_table == DType::b8 ? v.i != 0 : v.i);
              const double want = read * std::exp(get(f, weight.at({a, j, 0})).f) + static_cast<double>(3 * a + j), got = get(f, out.at({a, j, b})).f;
              if (std::isnan(want) || std::isinf(want)) {
                ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : got == want);
              } else {
                ASSERT_NEAR(got, want, 3e-6 * (std::fabs(want) + 100)) << ir::name_of(of_table) << " at " << a << " " << j << " " << b;
              }
            }
          }
        }
      }
    }
  }
}

// Gathers along two axes; an index out of range gives the same error at any place.
TEST(fused, gathered_elements) {
  const auto f = DType::f32;
  const int64_t n = 700;
  Tensor table(f, {31, 17}), rows(DType::i64, {1, n}), columns(DType::i64, {3, n}), out(f, {3, n});
  fill_plain(table, 1);
  for (int64_t e = 0; e < n; ++e) {
    put(DType::i64, rows.at({0, e}), {0, e * 5 % 31});
    for (int64_t r = 0; r < 3; ++r) put(DType::i64, columns.at({r, e}), {0, (e + r) * 3 % 17});
  }
  BodyBuilder k({3}, {n});
  Reg i = k.load(DType::i64), j = k.load(DType::i64);
  k.store(f, k.load(f, {i, j}));
  FusedStep step(k.body, {rows.view(), columns.view(), {table.bytes.data(), {1, 1, 31, 17}, {0, 0, 17, 1}}, out.view()}, inline_workers());
  step.run();
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t e = 0; e < n; ++e) ASSERT_EQ(get(f, out.at({r, e})).f, get(f, table.at({e * 5 % 31, (e + r) * 3 % 17})).f);
  }
  for (const int64_t wrong : {int64_t{17}, int64_t{-1}, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
    put(DType::i64, columns.at({2, n - 3}), {0, wrong});
    try {
      step.run();
      FAIL() << "an index out of range was accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.message, fmt::format("index {} is out of range for an axis of size 17", wrong));
    }
  }
}

TEST(fused, integer_division_by_zero_is_an_error) {
  for (Op op : {Op::truncdiv, Op::floordiv, Op::mod, Op::fmod}) {
    Tensor x(DType::i64, {1, 8}), y(DType::i64, {1, 8}), out(DType::i64, {1, 8});
    BodyBuilder k({1}, {8});
    Reg a = k.load(DType::i64), b = k.load(DType::i64);
    k.store(DType::i64, k.map(op, DType::i64, {a, b}));
    FusedStep step(k.body, {x.view(), y.view(), out.view()}, inline_workers());
    EXPECT_THROW(step.run(), Error) << ir::name_of(op);
  }
}

// Damaged byte code is refused, or stays inside its operands (checked by the address sanitizer).
TEST(fused, damaged_code) {
  BodyBuilder k({4}, {24});
  const auto f = DType::f32;
  Reg i = k.load(DType::i64), a = k.load(f), g = k.load(f, {i}), at = k.index(1);
  Reg e = k.map(Op::exp, f, {k.map(Op::sub, f, {k.map(Op::add, f, {a, g}), k.reduce(Reduction::max, f, a)})});
  Reg wide = k.map(Op::cast, f, {at});
  k.store(f, k.map(Op::add, f, {k.map(Op::div, f, {e, k.reduce(Reduction::sum, f, e)}), wide}));
  Emitted code = emit(k.body);
  std::mt19937 random(5);
  int refused = 0, ran = 0;
  const RunKernel* kernel = find_cpu_kernel("fused");
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes = code.code;
    int changes = 1 + static_cast<int>(random() % 3);
    for (int c = 0; c < changes; ++c) bytes[random() % bytes.size()] = static_cast<std::byte>(random() % 2 ? random() % 256 : random() % 12);
    if (random() % 16 == 0) bytes.resize(random() % bytes.size());
    // Exact sizes on the heap, so that an access outside is detected.
    std::vector<int64_t> index(4 * 24, 3);
    std::vector<float> x(4 * 24, 0.5f), table(7, 1.0f), out(4 * 24);
    int64_t full[] = {4, 24}, steps[] = {24, 1}, table_dims[] = {1, 1, 7}, table_steps[] = {0, 0, 1}, sizes[] = {4, 24};
    TensorRef refs[] = {{reinterpret_cast<std::byte*>(index.data()), DType::i64, 2, full, steps},
                        {reinterpret_cast<std::byte*>(x.data()), f, 2, full, steps},
                        {reinterpret_cast<std::byte*>(table.data()), f, 3, table_dims, table_steps},
                        {reinterpret_cast<std::byte*>(out.data()), f, 2, full, steps}};
    try {
      auto loaded = kernel->load(bytes, 4, 2);
      Call call;
      call.operands = refs;
      call.sizes = sizes;
      call.constants = loaded.get();
      call.workers = &inline_workers();
      Resolved resolved = kernel->resolve(call);
      std::vector<std::byte> scratch(resolved.scratch + 64);
      call.scratch = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
      call.prepared = resolved.state.get();
      kernel->run(call);
      ++ran;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(ran, 100);
}

}  // namespace
}  // namespace ingot::backend::cpu
