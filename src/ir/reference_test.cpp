// What every family of operations means, on numbers small enough to work out by hand.
#include "ir/reference.h"

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "ir/compose.h"
#include "ir/half.h"

namespace ingot::ir {
namespace {

using Numbers = std::vector<double>;
const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();

Array array(DType t, std::vector<int64_t> dims, const Numbers& values) {
  Array a = Array::empty(t, std::move(dims));
  for (size_t i = 0; i < values.size(); ++i) {
    auto put = [&](auto v) { std::memcpy(a.bytes.data() + i * sizeof(v), &v, sizeof(v)); };
    double v = values[i];
    switch (t) {
      case DType::b8: put(static_cast<uint8_t>(v)); break;
      case DType::u8: put(static_cast<uint8_t>(v)); break;
      case DType::i16: put(static_cast<int16_t>(v)); break;
      case DType::i32: put(static_cast<int32_t>(v)); break;
      case DType::i64: put(static_cast<int64_t>(v)); break;
      case DType::f16: put(float_to_f16(static_cast<float>(v))); break;
      case DType::bf16: put(float_to_bf16(static_cast<float>(v))); break;
      case DType::f32: put(static_cast<float>(v)); break;
      default: put(v); break;
    }
  }
  return a;
}

Numbers numbers(const Array& a) {
  Numbers out;
  for (size_t i = 0; i < static_cast<size_t>(a.numel()); ++i) {
    const std::byte* p = a.bytes.data() + i * size_of(a.dtype);
    auto get = [&](auto v) {
      std::memcpy(&v, p, sizeof(v));
      return v;
    };
    switch (a.dtype) {
      case DType::b8:
      case DType::u8: out.push_back(get(uint8_t{})); break;
      case DType::i8: out.push_back(get(int8_t{})); break;
      case DType::i16: out.push_back(get(int16_t{})); break;
      case DType::i32: out.push_back(get(int32_t{})); break;
      case DType::i64: out.push_back(static_cast<double>(get(int64_t{}))); break;
      case DType::f16: out.push_back(f16_to_float(get(uint16_t{}))); break;
      case DType::bf16: out.push_back(bf16_to_float(get(uint16_t{}))); break;
      case DType::f32: out.push_back(get(float{})); break;
      default: out.push_back(get(double{})); break;
    }
  }
  return out;
}

// One expression over inputs of fixed sizes.
struct Example {
  Graph g;
  std::vector<Array> in;
  Handle x(DType t, std::vector<int64_t> dims, const Numbers& values) {
    in.push_back(array(t, dims, values));
    return {&g, g.add_input("x" + std::to_string(in.size()), {t, Dims(dims.begin(), dims.end())})};
  }
  std::vector<Array> all(std::vector<Handle> results) {
    for (const Handle& h : results) g.outputs.push_back({h.id(), "y", {}});
    verify(g, Level::canonical);
    return interpret(g, in);
  }
  Numbers of(Handle h) { return numbers(all({h})[0]); }
};

void expect(const Numbers& got, const Numbers& want, double eps = 0) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << i << ": " << got[i];
    } else {
      EXPECT_TRUE(got[i] == want[i] || std::fabs(got[i] - want[i]) <= eps * std::fabs(want[i])) << i << ": " << got[i] << " not " << want[i];
      EXPECT_TRUE(want[i] != 0 || eps != 0 || std::signbit(got[i]) == std::signbit(want[i])) << i;
    }
  }
}

Numbers unary(Op op, DType t, const Numbers& v) {
  Example e;
  return e.of(map(op, {e.x(t, {static_cast<int64_t>(v.size())}, v)}));
}
Numbers binary(Op op, DType t, const Numbers& a, const Numbers& b) {
  Example e;
  Handle x = e.x(t, {static_cast<int64_t>(a.size())}, a), y = e.x(t, {static_cast<int64_t>(b.size())}, b);
  return e.of(map(op, {x, y}));
}

TEST(Reference, FloatArithmetic) {
  expect(binary(Op::floordiv, DType::f64, {7, -7, 7, 1, -1}, {2, 2, -2, inf, inf}), {3, -4, -4, 0, -1});
  expect(binary(Op::mod, DType::f64, {7, -7, 7, -7, -1}, {3, 3, -3, -3, inf}), {1, 2, -2, -1, inf});
  expect(binary(Op::fmod, DType::f64, {7, -7, 7}, {3, 3, -3}), {1, -1, 1});
  expect(binary(Op::truncdiv, DType::f64, {7, -7}, {2, 2}), {3, -3});
  expect(binary(Op::min, DType::f32, {1, nan, 3}, {2, 2, nan}), {1, nan, nan});
  expect(binary(Op::fmax, DType::f32, {1, nan, 3}, {2, 2, nan}), {2, 2, 3});
  expect(binary(Op::div, DType::f32, {1, -1, 0}, {0, 0, 0}), {inf, -inf, nan});
  expect(binary(Op::nextafter, DType::f32, {1}, {2}), {1 + std::ldexp(1.0, -23)});
  expect(unary(Op::round, DType::f32, {0.5, 1.5, 2.5, -0.5}), {0, 2, 2, -0.0});
  expect(unary(Op::relu, DType::f32, {-1, 2, nan}), {0, 2, nan});
  expect(unary(Op::sign, DType::f32, {-3, 0, 5, nan}), {-1, 0, 1, 0});
  expect(unary(Op::is_nan, DType::f32, {1, nan, inf}), {0, 1, 0});
  expect(unary(Op::signbit, DType::f32, {1, -0.0, -inf}), {0, 1, 1});
}

TEST(Reference, Bits) {
  auto bits = [](DType from, DType to, const Numbers& numbers) {
    Example e;
    return e.of(bitcast(e.x(from, {static_cast<int64_t>(numbers.size())}, numbers), to));
  };
  expect(bits(DType::f32, DType::i32, {1, -0.0, inf}), {0x3f800000, INT32_MIN, 0x7f800000});
  expect(bits(DType::f16, DType::i16, {1, -2}), {0x3c00, -0x4000});
  expect(bits(DType::bf16, DType::i16, {1, -2}), {0x3f80, -0x4000});
  expect(bits(DType::i32, DType::f32, {0x40400000, INT32_MIN}), {3, -0.0});
  expect(bits(DType::i64, DType::f64, {int64_t{0x3ff} << 52}), {1});
  expect(bits(DType::u8, DType::i8, {200}), {-56});
  expect(bits(DType::f16, DType::bf16, {1}), {0.0078125});
}

TEST(Reference, FloatFunctions) {
  expect(binary(Op::gammainc, DType::f64, {2, 100, 0.5, 1, 0}, {2, 99, 30, 0, 1}), {0.593994150290162, 0.473304330399461, 1, 0, 1}, 1e-14);
  expect(binary(Op::gammaincc, DType::f64, {2, 100, 1e-3, -1}, {2, 99, 0.5, 1}), {0.406005849709838, 0.526695669600539, 5.6006665647075e-4, nan}, 1e-13);
  expect(unary(Op::sigmoid, DType::f64, {0, 1000, -1000}), {0.5, 1, 0});
  expect(unary(Op::softplus, DType::f64, {1000, -1000, 0, nan}), {1000, 0, std::log(2.0), nan}, 1e-15);
  expect(unary(Op::gelu, DType::f64, {0, 1, -10}), {0, 0.8413447460685429, -7.619853024160495e-23}, 1e-13);
  expect(unary(Op::gelu_tanh, DType::f64, {1, -1}), {0.8411919906082768, -0.15880800939172324}, 1e-14);
  expect(unary(Op::silu, DType::f64, {1, -1}), {0.7310585786300049, -0.2689414213699951}, 1e-15);
  expect(unary(Op::erfinv, DType::f64, {0.5, -0.999, 1, 2}), {0.4769362762044699, -2.326753765513525, inf, nan}, 1e-13);
  expect(unary(Op::digamma, DType::f64, {1, 0.5, -0.5}), {-0.5772156649015329, -1.9635100260214235, 0.03648997397857652}, 1e-12);
  expect(unary(Op::lgamma, DType::f64, {5, 0.5}), {std::log(24.0), 0.5723649429247001}, 1e-14);
}

TEST(Reference, IntegersAreExact) {
  expect(binary(Op::floordiv, DType::i64, {7, -7, 7}, {2, 2, -2}), {3, -4, -4});
  expect(binary(Op::mod, DType::i64, {7, -7, 7}, {3, 3, -3}), {1, 2, -2});
  expect(binary(Op::fmod, DType::i64, {-7}, {3}), {-1});
  expect(binary(Op::truncdiv, DType::i64, {-7}, {2}), {-3});
  expect(binary(Op::mul, DType::i32, {65536}, {65537}), {65536});
  expect(binary(Op::add, DType::u8, {250}, {10}), {4});
  expect(binary(Op::sub, DType::u8, {1}, {2}), {255});
  expect(binary(Op::pow, DType::i64, {3, 2, -1, 2}, {4, 62, -3, -1}), {81, 4611686018427387904.0, -1, 0});
  expect(binary(Op::shift_left, DType::i32, {1, 1, 3}, {4, 32, 31}), {16, 0, -2147483648.0});
  expect(binary(Op::shift_right, DType::i32, {-16, -16}, {2, 40}), {-4, -1});
  expect(binary(Op::gcd, DType::i64, {12, -4}, {18, 6}), {6, 2});
  expect(unary(Op::bit_not, DType::b8, {1, 0}), {0, 1});
  expect(unary(Op::bit_not, DType::u8, {1}), {254});
  // Beyond the 53 bits of a double.
  Example e;
  Handle big = e.x(DType::i64, {1}, {1});
  Array got = e.all({big * Scalar(int64_t{9007199254740993}) + 1})[0];
  int64_t v;
  std::memcpy(&v, got.bytes.data(), sizeof v);
  EXPECT_EQ(v, 9007199254740994);
  EXPECT_THROW(binary(Op::floordiv, DType::i64, {1}, {0}), Error);
  EXPECT_THROW(binary(Op::mod, DType::i32, {1}, {0}), Error);
}

TEST(Reference, HalvesRoundOnce) {
  expect(binary(Op::add, DType::f16, {2048, 2048, 60000}, {1, 3, 60000}), {2048, 2052, inf});
  expect(binary(Op::add, DType::bf16, {256, 256}, {1, 3}), {256, 260});
  // 1 + 2^-11 + 2^-40 is just above the middle of two halves; by way of f32 it would fall on it, and down.
  Example e;
  Handle x = e.x(DType::f64, {1}, {1 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40)});
  expect(e.of(cast(x, DType::f16)), {1 + std::ldexp(1.0, -10)});
  Example s;
  expect(s.of(cast(s.x(DType::f64, {3}, {std::ldexp(1.0, -24), std::ldexp(1.0, -25), std::ldexp(3.0, -25)}), DType::f16)), {std::ldexp(1.0, -24), 0, std::ldexp(1.0, -23)});
  for (uint32_t bits = 0; bits < 65536; ++bits) {  // every half survives the way through float
    auto h = static_cast<uint16_t>(bits);
    ASSERT_TRUE(std::isnan(f16_to_float(h)) || float_to_f16(f16_to_float(h)) == h) << bits;
    ASSERT_TRUE(std::isnan(bf16_to_float(h)) || float_to_bf16(bf16_to_float(h)) == h) << bits;
  }
}

TEST(Reference, ViewsReadThroughTheirMap) {
  Numbers v{0, 1, 2, 3, 4, 5};
  auto of = [&](auto body) {
    Example e;
    return e.of(body(e.x(DType::f32, {2, 3}, v)));
  };
  expect(of([](Handle x) { return transpose(x, 0, 1); }), {0, 3, 1, 4, 2, 5});
  expect(of([](Handle x) { return slice(x, 1, Dim(-2), {}, 1); }), {1, 2, 4, 5});
  expect(of([](Handle x) { return flip(x, {0, 1}); }), {5, 4, 3, 2, 1, 0});
  expect(of([](Handle x) { return take(x, 0, -1); }), {3, 4, 5});
  expect(of([](Handle x) { return pad(x, {0, 1}, {1, -1}, 9.0); }), {9, 0, 1, 9, 3, 4, 9, 9, 9});
  expect(of([](Handle x) { return expand(take(x, 1, 0), {2, 2}); }), {0, 3, 0, 3});
  expect(of([](Handle x) { return reshape(transpose(x, 0, 1), {2, 3}); }), {0, 3, 1, 4, 2, 5});
  expect(of([](Handle x) { return update(x, slice_map({2, 3}, 1, 0, 2, 2), slice(x * -1.0, 1, 0, 2, 1)); }), {-0.0, 1, -1, -3, 4, -4});
}

TEST(Reference, ReductionsAndScans) {
  Numbers v{3, 1, 2, nan, 5, -1};
  auto of = [&](auto body) {
    Example e;
    return e.of(body(e.x(DType::f32, {2, 3}, v)));
  };
  expect(of([](Handle x) { return sum(x, {1}); }), {6, nan});
  expect(of([](Handle x) { return amax(x, {0}, keep); }), {nan, 5, 2});
  expect(of([](Handle x) { return amin(x, {}); }), {nan});
  expect(of([](Handle x) { return reduce("argmax", x, {1}, drop); }), {0, 0});
  expect(of([](Handle x) { return reduce("argmin", x, {}, drop); }), {3});
  expect(of([](Handle x) { return reduce("prod", x, {1}, drop); }), {6, nan});
  expect(of([](Handle x) { return reduce("any", x > 4.0, {1}, drop); }), {0, 1});
  expect(of([](Handle x) { return mean(slice(x, 0, 0, 1, 1), {0, 1}); }), {2});
  expect(of([](Handle x) { return scan("sum", x, 1); }), {3, 4, 6, nan, nan, nan});
  expect(of([](Handle x) { return scan("max", slice(x, 0, 0, 1, 1), -1); }), {3, 3, 3});
  Example e;
  expect(e.of(sum(e.x(DType::i32, {2}, {2147483647, 1}), {})), {2147483648.0});  // integers sum in 64 bits
  Example l;
  expect(l.of(scan("logsumexp", l.x(DType::f64, {3}, {-inf, 1000, 1000}), 0)), {-inf, 1000, 1000 + std::log(2.0)}, 1e-15);
  Example empty;
  expect(empty.of(sum(empty.x(DType::f32, {0, 2}, {}), {0})), {0, 0});
}

TEST(Reference, GatherAndScatter) {
  auto of = [&](auto body) {
    Example e;
    Handle table = e.x(DType::f32, {3, 2}, {0, 1, 2, 3, 4, 5}), at = e.x(DType::i64, {2}, {2, -3});
    return e.of(body(table, at));
  };
  expect(of([](Handle t, Handle i) { return gather(t, {0}, {i}, 0, true); }), {4, 5, 0, 1});
  expect(of([](Handle t, Handle i) { return gather(t, {0, 1}, {i, i * 0 + 1}, 0, true); }), {5, 1});
  expect(of([](Handle t, Handle i) { return scatter(t, {0}, {i}, 0, true, full(t.graph(), {2, 2}, 10.0, DType::f32), "add"); }), {10, 11, 2, 3, 14, 15});
  EXPECT_THROW(of([](Handle t, Handle i) { return gather(t, {0}, {i}, 0, false); }), Error);
  EXPECT_THROW(of([](Handle t, Handle i) { return gather(t, {1}, {i}, 1, true); }), Error);
  auto along = [&](auto body) {
    Example e;
    Handle x = e.x(DType::f32, {2, 2}, {1, 2, 3, 4}), at = e.x(DType::i64, {2, 2}, {0, 0, 1, 0});
    return e.of(body(x, at));
  };
  expect(along([](Handle x, Handle i) { return take_along(x, 1, i); }), {1, 1, 4, 3});
  expect(along([](Handle x, Handle i) { return scatter_along(x, 1, i, x * 10.0, "add"); }), {31, 2, 43, 34});
  expect(along([](Handle x, Handle i) { return scatter_along(x, 0, i, x * 10.0, "set"); }), {10, 40, 30, 4});
}

TEST(Reference, SortAndTopk) {
  Example e;
  Handle x = e.x(DType::f32, {1, 5}, {2, nan, 1, 2, -inf});
  auto [values, indices] = sort(x, -1, false, true);
  auto [largest, where] = topk(x, 2, -1, true, true);
  auto [down, order] = sort(x, -1, true, true);
  std::vector<Array> got = e.all({values, indices, largest, where, down, order});
  expect(numbers(got[0]), {-inf, 1, 2, 2, nan});
  expect(numbers(got[1]), {4, 2, 0, 3, 1});
  expect(numbers(got[2]), {nan, 2});
  expect(numbers(got[3]), {1, 0});
  expect(numbers(got[4]), {nan, 2, 2, 1, -inf});
  expect(numbers(got[5]), {1, 0, 3, 2, 4});
  Example zero;
  expect(zero.of(sort(zero.x(DType::f32, {}, {4}), 0, false, false).first), {4});
}

TEST(Reference, MatmulBroadcastsBatches) {
  Example e;
  Handle a = e.x(DType::f32, {2, 1, 2}, {1, 2, 3, 4}), b = e.x(DType::f32, {2, 2}, {1, 10, 100, 1000});
  expect(e.of(matmul(a, b)), {201, 2010, 403, 4030});
  Example i;
  expect(i.of(matmul(i.x(DType::i64, {2}, {3, 4}), i.x(DType::i64, {2}, {5, 6}))), {39});
  Example none;  // an inner size of 0 gives zeros
  expect(none.of(matmul(none.x(DType::f32, {2, 0}, {}), none.x(DType::f32, {0, 1}, {}))), {0, 0});
}

TEST(Reference, AttentionIsSoftmaxOfScores) {
  auto run = [](std::optional<Numbers> mask, DType type, bool causal) {
    Example e;
    Handle q = e.x(DType::f32, {2, 1}, {1, 2}), k = e.x(DType::f32, {2, 1}, {0, 1}), v = e.x(DType::f32, {2, 1}, {1, 3});
    std::optional<Handle> m;
    if (mask) m = e.x(type, {2, 2}, *mask);
    return e.of(attention(q, k, v, m, 1.0, causal));
  };
  double p = 1 / (1 + std::exp(-1.0)), r = 1 / (1 + std::exp(-2.0));
  expect(run({}, DType::f32, false), {1 + 2 * p, 1 + 2 * r}, 1e-7);
  expect(run({}, DType::f32, true), {1, 1 + 2 * r}, 1e-7);
  expect(run(Numbers{1, 0, 0, 0}, DType::b8, false), {1, 0});  // a row without keys gives zeros
  expect(run(Numbers{0, -inf, -inf, 0}, DType::f32, false), {1, 3});
}

TEST(Reference, FourierTransforms) {
  Example e;
  const Handle x = e.x(DType::f64, {4}, {1, 2, 3, 5}), y = e.x(DType::f64, {4}, {0, 1, 0, -1});
  const auto [re, im] = fourier(x, y);
  const auto [half_re, half_im] = fourier_of_real(x);
  const std::vector<Array> out = e.all({re, im, half_re, half_im, fourier_to_real(half_re, half_im, 4), fourier_to_real(half_re, half_im, 5)});
  std::vector<Numbers> want = {{11, 0, -3, -4}, {0, 3, 0, -3}, {11, -2, -3}, {0, 3, 0}, {4, 8, 12, 20}, {}};
  for (int j = 0; j < 5; ++j) {
    const double a = 2 * M_PI * j / 5;
    want[5].push_back(11 - 4 * std::cos(a) - 6 * std::sin(a) - 6 * std::cos(2 * a));
  }
  for (size_t i = 0; i < want.size(); ++i) expect(numbers(out[i]), want[i], 1e-14);
}

// Along two axes: as along one after the other.
TEST(Reference, FourierTransformsOfTwoAxes) {
  Example e;
  const Handle x = e.x(DType::f64, {2, 3}, {1, 2, 3, 5, 8, 13}), y = e.x(DType::f64, {2, 3}, {0, 1, 0, -1, 2, 0});
  auto transposed = [](const Handle& v) { return transpose(v, 0, 1); };
  const auto [re, im] = fourier(x, y, 2);
  const auto [row_re, row_im] = fourier(x, y);
  const auto [want_re, want_im] = fourier(transposed(row_re), transposed(row_im));
  const auto [half_re, half_im] = fourier_of_real(x, 2);
  const std::vector<Array> out = e.all({re, im, transposed(want_re), transposed(want_im), half_re, fourier_to_real(half_re, half_im, 3, 2)});
  expect(numbers(out[0]), numbers(out[2]), 1e-14);
  expect(numbers(out[1]), numbers(out[3]), 1e-14);
  expect(numbers(out[4]), {32, -7, -20, 4}, 1e-14);
  expect(numbers(out[5]), {6, 12, 18, 30, 48, 78}, 1e-14);  // without a factor
}

// An image of 2 x 2 at its centre, between two elements, on an element, and half outside.
TEST(Reference, ElementsAtPlaces) {
  Example e;
  const Handle x = e.x(DType::f64, {1, 1, 2, 2}, {1, 2, 3, 6}), grid = e.x(DType::f64, {1, 4, 2}, {0, 0, 0, -0.5, 0.5, 0.5, 1, 0.5});
  const std::vector<Array> out =
      e.all({grid_sample(x, grid, "linear", "zeros", false), grid_sample(x, grid, "nearest", "border", false), grid_sample(x, grid, "linear", "border", true, false),
             grid_sample(x, grid, "linear", "reflection", false), grid_sample(x, grid, "cubic", "border", false)});
  expect(numbers(out[0]), {3, 1.5, 6, 3}, 1e-14);
  expect(numbers(out[1]), {1, 1, 6, 6}, 1e-14);
  expect(numbers(out[2]), {3, 2.25, 4.375, 5}, 1e-14);
  expect(numbers(out[3]), {3, 1.5, 6, 6}, 1e-14);
  EXPECT_NEAR(numbers(out[4])[0], 3, 1e-14);
}

TEST(Reference, SymbolsComeFromTheInputs) {
  Graph g;
  g.symbols = {{"B", 1, 8, 64}, {"S", 0, 16, 512}};
  Dim B = Dim::symbol(0), S = Dim::symbol(1);
  Handle x(&g, g.add_input("x", {DType::f32, {B, 2 * S}})), y(&g, g.add_input("y", {DType::f32, {S, B}}));
  Handle z = sum(x, {1}) + sum(y, {0}) + literal(g, S, DType::i64);
  g.outputs.push_back({z.id(), "z", {}});
  using Sizes = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(bind_symbols(g, Sizes{{3, 10}, {5, 3}}), (std::vector<int64_t>{3, 5}));
  EXPECT_THROW(bind_symbols(g, Sizes{{3, 10}, {4, 3}}), Error);
  EXPECT_THROW(bind_symbols(g, Sizes{{3, 10}, {5, 4}}), Error);
  EXPECT_THROW(bind_symbols(g, Sizes{{65, 0}, {0, 65}}), Error);
  EXPECT_THROW(bind_symbols(g, Sizes{{3, 10}}), Error);
  EXPECT_THROW(bind_symbols(g, Sizes{{3, 10, 1}, {5, 3}}), Error);
  std::vector<Array> in{array(DType::f32, {2, 2}, {1, 2, 3, 4}), array(DType::f32, {1, 2}, {10, 20})};
  expect(numbers(interpret(g, in)[0]), {14, 28});
  std::vector<Array> empty{array(DType::f32, {1, 0}, {}), array(DType::f32, {0, 1}, {})};
  expect(numbers(interpret(g, empty)[0]), {0});
  in[0].bytes.resize(3);
  EXPECT_THROW(interpret(g, in), Error);
}

// Tests compare every backend with the reference on small models.
TEST(Reference, SmallBertTakesLittleTime) {
  Graph g;
  g.symbols = {{"B", 1, 2, 8}, {"S", 1, 16, 64}};
  Dim B = Dim::symbol(0), S = Dim::symbol(1);
  std::vector<std::shared_ptr<std::vector<float>>> kept;
  auto weight = [&](Dims dims) {
    auto data = std::make_shared<std::vector<float>>(static_cast<size_t>(product(dims).value()));
    for (size_t i = 0; i < data->size(); ++i) (*data)[i] = std::sin(static_cast<float>(i * 37 + kept.size())) * 0.1F;
    kept.push_back(data);
    Weight w;
    w.name = "w" + std::to_string(kept.size());
    w.data = reinterpret_cast<const std::byte*>(data->data());
    w.bytes = data->size() * sizeof(float);
    return Handle(&g, g.add_weight(std::move(w), {DType::f32, std::move(dims)}));
  };
  auto norm = [](Handle x) {
    Handle d = x - mean(x, {-1}, keep);
    return d * rsqrt(mean(d * d, {-1}, keep) + 1e-5);
  };
  Handle ids(&g, g.add_input("ids", {DType::i64, {B, S}}));
  Handle x = norm(gather(weight({1000, 64}), {0}, {ids}, 0, true));
  for (int layer = 0; layer < 2; ++layer) {
    auto heads = [&](Handle y) { return permute(reshape(matmul(y, weight({64, 64})), {B, S, 4, 16}), {0, 2, 1, 3}); };
    Handle a = attention(heads(x), heads(x), heads(x), {}, 0.25, false);
    x = norm(x + matmul(reshape(permute(a, {0, 2, 1, 3}), {B, S, 64}), weight({64, 64})));
    x = norm(x + matmul(gelu(matmul(x, weight({64, 256}))), weight({256, 64})));
  }
  g.outputs.push_back({x.id(), "y", {}});
  std::vector<Array> in{array(DType::i64, {2, 16}, Numbers(32, 7))};
  auto start = std::chrono::steady_clock::now();
  Numbers y = numbers(interpret(g, in)[0]);
  double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("2 layers, hidden 64, 2 x 16 tokens: {:.2f} s\n", s);
  EXPECT_LT(s, 5);
  double square = 0;
  for (double v : y) square += v * v;
  EXPECT_NEAR(square / static_cast<double>(y.size()), 1, 1e-3);  // a normalised row has variance 1
}

}  // namespace
}  // namespace ingot::ir
