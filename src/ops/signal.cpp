// Window functions of signal processing, and the frequencies of Fourier transforms, as tensors of numbers computed in float64.
#include <cmath>

#include "base/error.h"
#include "ops/binding.h"
#include "ops/special.h"

namespace ingot::ops {

using namespace ir;

namespace {

// A function of each element's position, in units of the period: 0 at the first element, 1 one period later. A periodic window of n elements has period n, a symmetric one n - 1.
template <typename Function>
Value window(Graph& g, int64_t length, bool periodic, std::optional<DType> dtype, Function function) {
  const DType t = dtype.value_or(DType::f32);
  if (!is_float(t)) fail(Code::invalid_input, "a window of {}", name_of(t));
  if (length < 0) fail(Code::invalid_input, "a window of {} elements", length);
  if (length <= 1) return full(g, {Dim(length)}, 1, t);
  return cast(function(cast(iota(g, length), DType::f64) / static_cast<double>(periodic ? length : length - 1)), t);
}

Value bartlett(Graph& g, int64_t length, bool periodic, std::optional<DType> t) {
  return window(g, length, periodic, t, [](const Value& x) { return 1.0 - abs(x * 2.0 - 1.0); });
}

Value blackman(Graph& g, int64_t length, bool periodic, std::optional<DType> t) {
  return window(g, length, periodic, t, [](const Value& x) { return 0.42 - cos(x * (2 * M_PI)) * 0.5 + cos(x * (4 * M_PI)) * 0.08; });
}

// alpha = beta = 0.5: the window of Hann.
Value hamming(Graph& g, int64_t length, bool periodic, double alpha, double beta, std::optional<DType> t) {
  return window(g, length, periodic, t, [&](const Value& x) { return alpha - cos(x * (2 * M_PI)) * beta; });
}

// I0(beta sqrt(1 - (2x - 1)^2)) / I0(beta).
Value kaiser(Graph& g, int64_t length, bool periodic, double beta, std::optional<DType> t) {
  return window(g, length, periodic, t, [&](const Value& x) {
    const Value from_middle = x * 2.0 - 1.0;
    return bessel_i0(sqrt(maximum(1.0 - from_middle * from_middle, literal(g, 0, DType::f64))) * beta) / bessel_i0(literal(g, beta, DType::f64));
  });
}

// The frequencies of a transform of n samples with spacing d: 0, 1, .. and then, of all frequencies, the negative ones up to -1, over n * d.
Value frequencies(Graph& g, int64_t n, double d, bool onesided, std::optional<DType> dtype) {
  const DType t = dtype.value_or(DType::f32);
  if (!is_float(t)) fail(Code::unsupported, "frequencies of {}", name_of(t));
  if (n < 0) fail(Code::invalid_input, "frequencies of {} samples", n);
  const Value i = iota(g, onesided ? n / 2 + 1 : n);
  return cast(cast(onesided ? i : select(i < literal(g, (n + 1) / 2, DType::i64), i, i - n), DType::f64) * (1.0 / (static_cast<double>(n) * d)), t);
}

const Definition signal_rows[] = {
    {"bartlett_window(int window_length, *, ScalarType? dtype=None)", [](Graph& g, int64_t n, std::optional<DType> t) { return bartlett(g, n, true, t); }},
    {"bartlett_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None)",
     [](Graph& g, int64_t n, bool periodic, std::optional<DType> t) { return bartlett(g, n, periodic, t); }},
    {"blackman_window(int window_length, *, ScalarType? dtype=None)", [](Graph& g, int64_t n, std::optional<DType> t) { return blackman(g, n, true, t); }},
    {"blackman_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None)",
     [](Graph& g, int64_t n, bool periodic, std::optional<DType> t) { return blackman(g, n, periodic, t); }},
    {"fft_fftfreq(int n, float d=1.0, *, ScalarType? dtype=None)", [](Graph& g, int64_t n, double d, std::optional<DType> t) { return frequencies(g, n, d, false, t); }},
    {"fft_rfftfreq(int n, float d=1.0, *, ScalarType? dtype=None)", [](Graph& g, int64_t n, double d, std::optional<DType> t) { return frequencies(g, n, d, true, t); }},
    {"hann_window(int window_length, *, ScalarType? dtype=None)", [](Graph& g, int64_t n, std::optional<DType> t) { return hamming(g, n, true, 0.5, 0.5, t); }},
    {"hann_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None)",
     [](Graph& g, int64_t n, bool periodic, std::optional<DType> t) { return hamming(g, n, periodic, 0.5, 0.5, t); }},
    {"hamming_window(int window_length, *, ScalarType? dtype=None)", [](Graph& g, int64_t n, std::optional<DType> t) { return hamming(g, n, true, 0.54, 0.46, t); }},
    {"hamming_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None)",
     [](Graph& g, int64_t n, bool periodic, std::optional<DType> t) { return hamming(g, n, periodic, 0.54, 0.46, t); }},
    {"hamming_window.periodic_alpha(int window_length, bool periodic, float alpha, *, ScalarType? dtype=None)",
     [](Graph& g, int64_t n, bool periodic, double alpha, std::optional<DType> t) { return hamming(g, n, periodic, alpha, 0.46, t); }},
    {"hamming_window.periodic_alpha_beta(int window_length, bool periodic, float alpha, float beta, *, ScalarType? dtype=None)",
     [](Graph& g, int64_t n, bool periodic, double alpha, double beta, std::optional<DType> t) { return hamming(g, n, periodic, alpha, beta, t); }},
    {"kaiser_window(int window_length, *, ScalarType? dtype=None)", [](Graph& g, int64_t n, std::optional<DType> t) { return kaiser(g, n, true, 12.0, t); }},
    {"kaiser_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None)",
     [](Graph& g, int64_t n, bool periodic, std::optional<DType> t) { return kaiser(g, n, periodic, 12.0, t); }},
    {"kaiser_window.beta(int window_length, bool periodic, float beta, *, ScalarType? dtype=None)",
     [](Graph& g, int64_t n, bool periodic, double beta, std::optional<DType> t) { return kaiser(g, n, periodic, beta, t); }},
};

}  // namespace

std::span<const Definition> signal_definitions() { return signal_rows; }

}  // namespace ingot::ops
