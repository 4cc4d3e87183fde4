// Discrete Fourier transforms: torch.fft, stft and istft.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "ir/compose_nodes.h"
#include "ir/fourier.h"
#include "ops/binding.h"
#include "ops/complex.h"

namespace ingot::ops {

using namespace ir;

namespace {

// torch's normalisation for `count` elements: 0 none, 1 by the root of their number, 2 by their number.
Value scaled(const Value& x, int64_t normalization, const Dim& count) {
  if (normalization == 0) return x;
  if (const auto n = count.constant()) return x * (1 / (normalization == 1 ? std::sqrt(static_cast<double>(*n)) : static_cast<double>(*n)));
  const Value n = cast(literal(x.graph(), count, DType::i64), DType::f64);
  return x * cast(1.0 / (normalization == 1 ? sqrt(n) : n), x.dtype());
}

// Halves, which torch has on GPUs, are computed in float32.
Value widened(const Value& x) { return cast(x, compute_type(x.dtype())); }

void check(const Value& x, const Dim& length) {
  if (!is_float(x.dtype())) fail(Code::unsupported, "a Fourier transform of {}", name_of(x.dtype()));
  if (x.rank() == 0) fail(Code::invalid_input, "a Fourier transform of a number without an axis");
  require(x.graph(), Dim(1), Check::less_equal, length, "a Fourier transform has elements");
}

// The axes after the others, in this order; and where they were.
Value to_end(const Value& x, const Axes& axes) {
  Axes order;
  for (Axis i = 0; i < x.rank(); ++i) {
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) order.push_back(i);
  }
  order.insert(order.end(), axes.begin(), axes.end());
  return permute(x, order);
}

Value from_end(const Value& x, const Axes& axes) {
  Axes order(static_cast<size_t>(x.rank()), -1);
  Axis others = 0;
  for (size_t i = 0; i < axes.size(); ++i) order[static_cast<size_t>(axes[i])] = x.rank() - static_cast<Axis>(axes.size() - i);
  for (Axis& at : order) {
    if (at < 0) at = others++;
  }
  return permute(x, order);
}

// The transform of up to ir::max_fourier_axes axes. The inverse one is the same with the parts swapped, before and after.
Complex along_axes(const Complex& z, Axes axes, bool forward, int64_t normalization, const Dim& count) {
  std::sort(axes.begin(), axes.end());  // as they lie in memory most often
  for (Axis a : axes) check(z.re, z.re.dim(a));
  auto given = [&](const Value& x) { return widened(to_end(x, axes)); };
  const Value re = given(z.re), im = given(z.imaginary());
  const auto [first, second] = forward ? ir::fourier(re, im, std::ssize(axes)) : ir::fourier(im, re, std::ssize(axes));
  auto made = [&](const Value& part) { return from_end(cast(scaled(part, normalization, count), z.re.dtype()), axes); };
  return {made(forward ? first : second), made(forward ? second : first)};
}

// The axes of one transform whose last axis is special: the last of `axes`, after some others in the order of memory. `axes` keeps those that are left.
Axes take_last(std::span<const Axis>& axes) {
  const size_t n = std::min(axes.size(), static_cast<size_t>(max_fourier_axes));
  Axes out(axes.end() - static_cast<std::ptrdiff_t>(n), axes.end());
  std::sort(out.begin(), out.end() - 1);
  axes = axes.first(axes.size() - n);
  return out;
}

// Elements `count` down to 1 of an axis.
AffineMap reversed_part(const Value& x, Axis axis, const Dim& count) {
  AffineMap map{x.dims(), {}, std::nullopt};
  for (uint32_t d = 0; d < map.dims.size(); ++d) map.axes.push_back({0, {{d, 1}}});
  const auto at = static_cast<uint32_t>(axis);
  map.dims[at] = count;
  map.axes[at] = {count, {{at, -1}}};
  return map;
}

Dim numbers_of(const Value& x, std::span<const Axis> axes) {
  Dim n = 1;
  for (Axis a : axes) n *= x.dim(a);
  return n;
}

// The last axes first: their numbers are neighbours in memory most often.
Complex transform(Complex z, std::span<const Axis> axes, bool forward, int64_t normalization) {
  const Dim count = numbers_of(z.re, axes);
  while (!axes.empty()) z = along_axes(z, take_last(axes), forward, std::exchange(normalization, 0), count);
  return z;
}

// Forward, of the last of the axes only the first half.
Complex half_of_real(const Value& x, std::span<const Axis> axes, int64_t normalization) {
  const Dim count = numbers_of(x, axes);
  for (Axis a : axes) check(x, x.dim(a));
  const Axes taken = take_last(axes);
  const auto [re, im] = ir::fourier_of_real(widened(to_end(x, taken)), std::ssize(taken));
  auto made = [&](const Value& part) { return from_end(cast(scaled(part, normalization, count), x.dtype()), taken); };
  return transform({made(re), made(im)}, axes, true, 0);
}

// Forward. The other half along the last axis has the conjugates, in reverse along each axis: element k of the transform is the conjugate of element -k.
Complex transform_of_real(const Value& x, std::span<const Axis> axes, int64_t normalization) {
  const Axis last = axes.back();
  const Complex half = half_of_real(x, axes, 0);
  // Both parts at once, as complex numbers lie in memory.
  const Value z = scaled(interleaved(joined(half)), normalization, numbers_of(x, axes)), one = full(x.graph(), {Dim(1)}, 1, z.dtype());
  Value other = view(z, reversed_part(z, last, floordiv(x.dim(last) - 1, 2))) * concat({one, -one}, 0);
  for (Axis a : axes.first(axes.size() - 1)) other = concat({slice(other, a, Dim(0), Dim(1), 1), view(other, reversed_part(other, a, other.dim(a) - 1))}, a);
  return parts(of_interleaved(concat({z, other}, last)));
}

// The inverse transform of a half, `length` elements along the last of the axes.
Value transform_to_real(const Complex& given, std::span<const Axis> axes, const Dim& length, int64_t normalization) {
  const Axis last = axes.back();
  const Dim count = numbers_of(given.re, axes.first(axes.size() - 1)) * length;
  check(given.re, length);
  const Axes taken = take_last(axes);
  for (size_t i = 0; i + 1 < taken.size(); ++i) check(given.re, given.re.dim(taken[i]));
  const Complex z = transform(given, axes, false, 0);
  auto half = [&](const Value& x) { return widened(to_end(slice(x, last, Dim(0), floordiv(length, 2) + 1, 1), taken)); };
  const Value made = ir::fourier_to_real(half(z.re), half(z.imaginary()), length, std::ssize(taken));
  return from_end(cast(scaled(made, normalization, count), given.re.dtype()), taken);
}

// The normalisation that a name of torch.fft means in this direction.
int64_t normalization_of(const std::optional<std::string>& name, bool forward) {
  if (name == "ortho") return 1;
  if (!name || *name == "backward") return forward ? 0 : 2;
  if (*name == "forward") return forward ? 2 : 0;
  fail(Code::invalid_input, "a Fourier transform with norm \"{}\"", *name);
}

// Cut, or filled up with zeros.
Value sized(const Value& x, Axis axis, const Dim& size) {
  const Dim now = x.dim(axis);
  if (now == size) return x;
  Dims none(x.dims().size(), Dim(0)), after = none;
  after[static_cast<size_t>(axis)] = size - now;
  return pad(x, none, after, 0);
}

// Which axes a call of torch.fft is about, and how many elements of each.
struct Extent {
  Axes axes;
  Dims sizes;  // -1: as many as there are
};

Extent extent_of(const Value& x, const std::optional<Dims>& sizes, const std::optional<Axes>& axes) {
  Extent out;
  const int64_t n = axes ? static_cast<int64_t>(axes->size()) : sizes ? static_cast<int64_t>(sizes->size()) : x.rank();
  if (n == 0 || (sizes && static_cast<int64_t>(sizes->size()) != n)) fail(Code::unsupported, "a Fourier transform along {} axes", n);
  for (int64_t i = 0; i < n; ++i) {
    out.axes.push_back(x.axis(axes ? (*axes)[static_cast<size_t>(i)] : x.rank() - n + i));
    out.sizes.push_back(sizes ? (*sizes)[static_cast<size_t>(i)] : Dim(-1));
  }
  return out;
}

Complex sized(Complex z, const Extent& e) {
  auto part = [&](Value x) {
    for (size_t i = 0; i < e.axes.size(); ++i) {
      if (!(e.sizes[i] == Dim(-1))) x = sized(x, e.axes[i], e.sizes[i]);
    }
    return x;
  };
  z.re = part(to_float(z.re));
  if (z.im) z.im = part(*z.im);
  return z;
}

using Norm = std::optional<std::string>;

// True if it is the number 0, repeated: the imaginary part of what torch made complex before it calls _fft_c2c.
bool is_zero(const Value& x) {
  const Graph& g = x.graph();
  const Node* made = &g.producer(x.id());
  while (made->op == Op::view && !made->attributes.map("map").fill) made = &g.producer(made->in[0]);
  return made->op == Op::literal && made->attributes.scalar("value").to_double() == 0;
}

// fft, ifft and those of several axes.
Complex complex_transform(const Complex& z, std::span<const Axis> axes, bool forward, int64_t normalization) {
  if (z.im && !is_zero(*z.im)) return transform(z, axes, forward, normalization);
  const Complex made = transform_of_real(z.re, axes, normalization);
  return forward ? made : conjugate(made);
}

Complex complex_transform(const Complex& given, const Extent& e, const Norm& norm, bool forward) {
  return complex_transform(sized(given, e), e.axes, forward, normalization_of(norm, forward));
}

// rfft and ihfft: a half of the last axis.
Complex half_transform(const Complex& given, const Extent& e, const Norm& norm, bool forward) {
  if (given.im) fail(Code::invalid_input, "a Fourier transform of real numbers, of complex ones");
  const Value x = sized(given, e).re;
  const int64_t normalization = normalization_of(norm, forward);
  const Complex half = half_of_real(x, e.axes, normalization);
  return forward ? half : conjugate(half);
}

// irfft and hfft: real numbers from a half of the last axis.
Value real_transform(const Complex& given, Extent e, const Norm& norm, bool forward) {
  const Dim half = given.re.dim(e.axes.back()), length = e.sizes.back() == Dim(-1) ? (half - Dim(1)) * Dim(2) : e.sizes.back();
  e.sizes.back() = floordiv(length, 2) + 1;
  const Complex z = sized(given, e);
  const int64_t normalization = normalization_of(norm, forward);
  return transform_to_real(forward ? conjugate(z) : z, e.axes, length, normalization);
}

Complex shifted(const Complex& z, const std::optional<Axes>& axes, bool back) {
  const Extent e = extent_of(z.re, std::nullopt, axes);
  auto part = [&](Value x) {
    for (Axis a : e.axes) {
      const Dim n = x.dim(a), first = back ? floordiv(n, 2) : floordiv(n + 1, 2);
      x = concat({slice(x, a, first, std::nullopt, 1), slice(x, a, Dim(0), first, 1)}, a);
    }
    return x;
  };
  return {part(z.re), z.im ? std::optional(part(*z.im)) : std::nullopt};
}

// What a definition of the table makes of one tensor.
Value called(const char* target, const char* operand, const Value& x, Attributes arguments) {
  arguments.set(operand, Ref{0});
  const ValueId in[] = {x.id()};
  return ops::expand(x.graph(), *find(target), arguments, in)[0];
}

// The windows of a signal whose spectra stft takes.
struct Frames {
  int64_t size, hop;
  std::optional<Value> window;  // [size]: one that is shorter has zeros around it

  Frames(const Value& x, int64_t n, std::optional<int64_t> step, std::optional<int64_t> length, std::optional<Value> given)
      : size(n), hop(step.value_or(n / 4)), window(std::move(given)) {
    const int64_t filled = length.value_or(n);
    if (size <= 0 || hop <= 0 || filled <= 0 || filled > size) fail(Code::invalid_input, "windows of {} elements in {}, with a hop of {}", filled, size, hop);
    if (filled == size) return;
    const int64_t before = (size - filled) / 2;
    if (!window) window = full(x.graph(), {Dim(filled)}, 1, x.dtype());
    window = pad(*window, {Dim(before)}, {Dim(size - filled - before)}, 0);
  }
};

// [signals, elements], or one signal alone, to [signals, frequencies, frames]. `padding`: the mode in which half a window is put around the signal, if any is.
Complex short_time_transform(const Complex& given, const Frames& frames, const std::optional<std::string>& padding, bool normalized, bool onesided) {
  if (given.im && onesided) fail(Code::invalid_input, "stft of complex numbers to half of the frequencies");
  const bool alone = given.re.rank() == 1;
  auto framed = [&](Value x) {
    if (alone) x = unsqueeze(x, 0);
    if (x.rank() != 2) fail(Code::invalid_input, "stft of a tensor of rank {}", x.rank());
    if (padding) x = squeeze(called("aten.pad.default", "self", unsqueeze(x, 0), {{"pad", to_attribute(Axes{frames.size / 2, frames.size / 2})}, {"mode", *padding}}), 0);
    x = called("aten.unfold.default", "self", x, {{"dimension", -1}, {"size", frames.size}, {"step", frames.hop}});
    return frames.window ? x * *frames.window : x;
  };
  const Axes last{2};
  const int64_t normalization = normalized ? 1 : 0;
  const Complex x{framed(given.re), given.im ? std::optional(framed(*given.im)) : std::nullopt};
  const Complex z = onesided ? half_of_real(x.re, last, normalization) : complex_transform(x, last, true, normalization);
  auto part = [&](const Value& v) {
    const Value y = transpose(v, 1, 2);
    return alone ? squeeze(y, 0) : y;
  };
  return {part(z.re), part(*z.im)};
}

// Windowed frames add up, over the sum of the windows' squares.
Complex inverse_short_time_transform(const Complex& given, const Frames& frames, bool centre, bool normalized, bool onesided, std::optional<int64_t> length, bool return_complex) {
  if (return_complex && onesided) fail(Code::invalid_input, "istft to complex numbers from half of the frequencies");
  const bool alone = given.re.rank() == 2;
  auto rows = [&](const Value& v) { return transpose(alone ? unsqueeze(v, 0) : v, 1, 2); };  // [signals, frames, frequencies]
  const Complex z{rows(given.re), rows(given.imaginary())};
  if (z.re.rank() != 3) fail(Code::invalid_input, "istft of a tensor of rank {}", given.re.rank());
  const Axes last{2};
  const int64_t normalization = normalized ? 1 : 2;
  const Complex signals = return_complex ? transform(z, last, false, normalization) : Complex{transform_to_real(z, last, frames.size, normalization), std::nullopt};
  const Dim count = z.re.dim(1), whole = (count - Dim(1)) * Dim(frames.hop) + Dim(frames.size);
  const Dim start = centre ? Dim(frames.size / 2) : Dim(0), end = length ? start + Dim(*length) : centre ? whole - Dim(frames.size / 2) : whole;
  auto added = [&](const Value& v) {
    const Value y =
        called("aten.unfold_backward.default", "grad_in", v, {{"input_sizes", to_attribute(Dims{v.dim(0), whole})}, {"dim", 1}, {"size", frames.size}, {"step", frames.hop}});
    return slice(y, 1, start, end, 1);
  };
  const Value window = frames.window ? *frames.window : full(z.re.graph(), {Dim(frames.size)}, 1, z.re.dtype());
  const Value weights = added(expand(square(window), {Dim(1), count, Dim(frames.size)}));
  auto part = [&](const Value& v) {
    Value y = added(v * window) / weights;
    if (length) y = sized(y, 1, Dim(*length));
    return alone ? squeeze(y, 0) : y;
  };
  return {part(signals.re), signals.im ? std::optional(part(*signals.im)) : std::nullopt};
}

using Size = std::optional<Dim>;
using Lengths = std::optional<Dims>;
using Count = std::optional<int64_t>;
using Flag = std::optional<bool>;

Extent one_axis(const Complex& z, const Size& size, Axis axis) { return extent_of(z.re, size ? Lengths({*size}) : std::nullopt, Axes{axis}); }

Value spectra(const Complex& x, const Frames& frames, const std::optional<std::string>& padding, bool normalized, Flag onesided, Flag return_complex) {
  const Value z = joined(short_time_transform(x, frames, padding, normalized, onesided.value_or(!x.im)));
  return return_complex.value_or(false) ? z : interleaved(z);
}

const Definition transform_rows[] = {
    {"_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward)",
     [](Complex z, Axes axes, int64_t normalization, bool forward) { return complex_transform(z, extent_of(z.re, std::nullopt, axes).axes, forward, normalization); }},
    {"_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided)",
     [](Value x, Axes axes, int64_t normalization, bool onesided) {
       const Axes along = extent_of(x, std::nullopt, axes).axes;
       return onesided ? half_of_real(x, along, normalization) : transform_of_real(x, along, normalization);
     }},
    {"_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size)",
     [](Complex z, Axes axes, int64_t normalization, Dim length) { return transform_to_real(z, extent_of(z.re, std::nullopt, axes).axes, length, normalization); }},
    {"fft_fft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None)",
     [](Complex z, Size n, Axis axis, Norm norm) { return complex_transform(z, one_axis(z, n, axis), norm, true); }},
    {"fft_fft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None)",
     [](Complex z, Lengths s, Axes axes, Norm norm) { return complex_transform(z, extent_of(z.re, s, axes), norm, true); }},
    {"fft_fftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None)",
     [](Complex z, Lengths s, std::optional<Axes> axes, Norm norm) { return complex_transform(z, extent_of(z.re, s, axes), norm, true); }},
    {"fft_ifft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None)",
     [](Complex z, Size n, Axis axis, Norm norm) { return complex_transform(z, one_axis(z, n, axis), norm, false); }},
    {"fft_ifft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None)",
     [](Complex z, Lengths s, Axes axes, Norm norm) { return complex_transform(z, extent_of(z.re, s, axes), norm, false); }},
    {"fft_ifftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None)",
     [](Complex z, Lengths s, std::optional<Axes> axes, Norm norm) { return complex_transform(z, extent_of(z.re, s, axes), norm, false); }},
    {"fft_rfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None)",
     [](Complex z, Size n, Axis axis, Norm norm) { return half_transform(z, one_axis(z, n, axis), norm, true); }},
    {"fft_rfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None)",
     [](Complex z, Lengths s, Axes axes, Norm norm) { return half_transform(z, extent_of(z.re, s, axes), norm, true); }},
    {"fft_rfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None)",
     [](Complex z, Lengths s, std::optional<Axes> axes, Norm norm) { return half_transform(z, extent_of(z.re, s, axes), norm, true); }},
    {"fft_ihfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None)",
     [](Complex z, Size n, Axis axis, Norm norm) { return half_transform(z, one_axis(z, n, axis), norm, false); }},
    {"fft_ihfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None)",
     [](Complex z, Lengths s, Axes axes, Norm norm) { return half_transform(z, extent_of(z.re, s, axes), norm, false); }},
    {"fft_ihfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None)",
     [](Complex z, Lengths s, std::optional<Axes> axes, Norm norm) { return half_transform(z, extent_of(z.re, s, axes), norm, false); }},
    {"fft_irfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None)",
     [](Complex z, Size n, Axis axis, Norm norm) { return real_transform(z, one_axis(z, n, axis), norm, false); }},
    {"fft_irfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None)",
     [](Complex z, Lengths s, Axes axes, Norm norm) { return real_transform(z, extent_of(z.re, s, axes), norm, false); }},
    {"fft_irfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None)",
     [](Complex z, Lengths s, std::optional<Axes> axes, Norm norm) { return real_transform(z, extent_of(z.re, s, axes), norm, false); }},
    {"fft_hfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None)",
     [](Complex z, Size n, Axis axis, Norm norm) { return real_transform(z, one_axis(z, n, axis), norm, true); }},
    {"fft_hfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None)",
     [](Complex z, Lengths s, Axes axes, Norm norm) { return real_transform(z, extent_of(z.re, s, axes), norm, true); }},
    {"fft_hfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None)",
     [](Complex z, Lengths s, std::optional<Axes> axes, Norm norm) { return real_transform(z, extent_of(z.re, s, axes), norm, true); }},
    {"fft_fftshift(Tensor self, int[1]? dim=None)", [](Complex z, std::optional<Axes> axes) { return shifted(z, axes, false); }},
    {"fft_ifftshift(Tensor self, int[1]? dim=None)", [](Complex z, std::optional<Axes> axes) { return shifted(z, axes, true); }},
    {"stft.center(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, str pad_mode=\"reflect\", bool normalized=False, "
     "bool? "
     "onesided=None, bool? return_complex=None)",
     Types::each,
     [](Complex x, int64_t n, Count hop, Count length, std::optional<Value> window, bool centre, std::string mode, bool normalized, Flag onesided, Flag return_complex) {
       return spectra(x, Frames(x.re, n, hop, length, window), centre ? std::optional(mode) : std::nullopt, normalized, onesided, return_complex);
     }},
    {"stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool normalized=False, bool? onesided=None, bool? return_complex=None)",
     Types::each,
     [](Complex x, int64_t n, Count hop, Count length, std::optional<Value> window, bool normalized, Flag onesided, Flag return_complex) {
       return spectra(x, Frames(x.re, n, hop, length, window), std::nullopt, normalized, onesided, return_complex);
     }},
    {"istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, bool normalized=False, bool? onesided=None, int? "
     "length=None, bool "
     "return_complex=False)",
     Types::each,
     [](Complex z, int64_t n, Count hop, Count filled, std::optional<Value> window, bool centre, bool normalized, Flag onesided, Count length, bool return_complex) {
       const bool half = onesided.value_or(!(z.re.dim(-2) == Dim(n)));
       return inverse_short_time_transform(z, Frames(z.re, n, hop, filled, window), centre, normalized, half, length, return_complex);
     }},
};

}  // namespace

std::span<const Definition> transform_definitions() { return transform_rows; }

}  // namespace ingot::ops
