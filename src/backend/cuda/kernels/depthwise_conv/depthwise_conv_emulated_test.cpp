// Depthwise convolutions on the host and, if there is one, on a GPU, against double: kernels, strides, padding, dilation, bodies,
// weights, odd addresses, sizes known at run time only.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "backend/cpu/compile/body_builder_test.h"
#include "backend/cuda/available_test.h"
#include "backend/cuda/compile/emulated_test.h"
#include "backend/cuda/kernels/depthwise_conv/depthwise_conv_text.h"
#include "backend/cuda/kernels/depthwise_conv/run/depthwise_conv_cuda_args.h"
#include "backend/cuda/kernels/depthwise_conv/run/depthwise_conv_launches.h"
#include "base/error.h"

namespace ingot::backend::cuda {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;

struct Site {
  std::string name;
  DType type = DType::f16;
  int64_t n, h, w, c, rows, columns;  // the last two: of the kernel; rows 0: along one axis
  int64_t stride = 1, pad = 0, dilation = 1;
  bool body = false;                  // bias, relu, what was there before
  bool shifted = false, symbolic = false;
  bool channels_first = false;        // the result and what is added to it
  bool taps_last = false;             // B is contiguous along taps
  bool in_lines = false;              // A, the result and what is added to it: channels first

  bool flat() const { return rows == 0; }
  int64_t kernel_rows() const { return flat() ? 1 : rows; }
  int64_t out(int64_t size, int64_t kernel) const { return (size + 2 * pad - (kernel - 1) * dilation - 1) / stride + 1; }
  int64_t oh() const { return flat() ? 1 : out(h, rows); }
  int64_t ow() const { return out(w, columns); }
};

std::vector<int64_t> without_rows(const Site& s, std::vector<int64_t> x) {
  if (s.flat()) x.erase(x.begin() + 1);
  return x;
}

struct Made {
  std::vector<HostTensor> tensors;  // A, B, bias and before, result
  FusedBody body;
  DepthwiseConv conv;
  std::vector<StridedLayout> layouts;  // of the body's operands
  std::vector<int64_t> symbols;
};

// The site as compile makes it.
Made make(const Site& s) {
  const std::vector<int64_t> result = without_rows(s, {s.n, s.oh(), s.ow(), s.c});
  const size_t kept = result.size();
  std::vector<int64_t> weights(kept - 1, 1);
  weights.push_back(s.c);
  std::vector<int64_t> bias = weights;
  if (!s.flat()) weights.push_back(s.rows);
  weights.push_back(s.columns);
  std::vector<size_t> last;  // channels are neighbours in B, or taps
  for (size_t d = 0; d < weights.size(); ++d) {
    if (d != kept - 1 || s.taps_last) last.push_back(d);
  }
  if (!s.taps_last) last.push_back(kept - 1);
  std::vector<size_t> order;
  const std::vector<size_t> first = s.flat() ? std::vector<size_t>{0, 2, 1} : std::vector<size_t>{0, 3, 1, 2};
  if (s.channels_first || s.in_lines) order = first;
  Made m;
  m.tensors.emplace_back(s.type, without_rows(s, {s.n, s.h, s.w, s.c}), s.in_lines ? first : std::vector<size_t>{});
  m.tensors.emplace_back(DType::f32, weights, last);
  if (s.body) {
    m.tensors.emplace_back(DType::f32, bias);
    m.tensors.emplace_back(s.type, result, order);
  }
  m.tensors.emplace_back(s.type, result, order);
  for (size_t k = 0; k < m.tensors.size(); ++k) m.tensors[k].fill(static_cast<uint32_t>(k + 5), true);
  cpu::BodyBuilder b({result.begin(), result.end() - 1}, {s.c});
  Instruction sum{};
  sum.kind = Instruction::Kind::accumulator;
  sum.dtype = DType::f32;
  Reg r = b.push(sum);
  if (s.body) {
    r = b.map(Op::relu, DType::f32, {b.map(Op::add, DType::f32, {r, b.load(DType::f32)})});
    r = b.map(Op::add, DType::f32, {r, b.load(s.type)});
  }
  b.store(s.type, r);
  m.body = std::move(b.body);
  // Sizes of indices and of A: symbols if they are known at run time only. A's channels are the result's.
  auto size = [&](int64_t value) {
    if (!s.symbolic) return Dim(value);
    m.symbols.push_back(value);
    return Dim::symbol(static_cast<ir::SymbolId>(m.symbols.size() - 1));
  };
  std::vector<Dim> extents;
  for (int64_t d : result) extents.push_back(size(d));
  std::vector<Dim> of_a{extents[0]};
  for (size_t d = 1; d + 1 < kept; ++d) of_a.push_back(size(m.tensors[0].dims[d]));
  of_a.push_back(extents.back());
  auto layout = [&](const HostTensor& x, const std::vector<Dim>& whole) {
    StridedLayout l{{x.dims.begin(), x.dims.end()}, ir::Dims(x.dims.size(), Dim(0)), Dim(0)};
    Dim step = 1;
    for (size_t k = x.order.size(); k-- > 0;) {
      const size_t d = x.order[k];
      if (d < whole.size() && x.dims[d] != 1) l.dims[d] = whole[d];
      if (x.dims[d] != 1) l.strides[d] = step;
      step = step * l.dims[d];
    }
    return l;
  };
  m.conv = {{DType::f32, kept}, s.type, layout(m.tensors[0], of_a), layout(m.tensors[1], extents)};
  m.conv.map.dims.assign(extents.begin(), extents.end());
  for (size_t d = kept; d < weights.size(); ++d) m.conv.map.dims.push_back(weights[d]);
  const auto channel = static_cast<uint32_t>(kept - 1);
  m.conv.map.axes.push_back({0, {{0, 1}}});
  for (uint32_t d = 1; d < channel; ++d) m.conv.map.axes.push_back({Dim(-s.pad), {{d, s.stride}, {channel + d, s.dilation}}});
  m.conv.map.axes.push_back({0, {{channel, 1}}});
  for (size_t k = 2; k < m.tensors.size(); ++k) m.layouts.push_back(layout(m.tensors[k], extents));
  return m;
}

void run(const Site& s, Made& m, Where where) {
  const auto obstacle = depthwise_conv_obstacle(m.conv, m.body, m.layouts);
  ASSERT_FALSE(obstacle) << obstacle->reason;
  EmittedStep code = emit_depthwise_conv(m.conv, m.body, m.layouts);
  std::vector<int64_t> sizes;
  for (const Dim& d : code.sizes) sizes.push_back(d.evaluate(m.symbols));
  std::vector<HostTensor*> pointers;
  for (HostTensor& x : m.tensors) pointers.push_back(&x);
  run_printed(
      {code, code.code[0].name, std::string(windows_text()) + code.code[0].text, code.code[0].kernels, kernels::load_depthwise_conv_cuda, kernels::depthwise_conv_cuda_launches},
      pointers, sizes, where, s.shifted ? 1 : 0, 4);
}

void check(const Site& s, Where where) {
  SCOPED_TRACE(fmt::format("{}, way {}", s.name, static_cast<int>(where)));
  Made m = make(s);
  run(s, m, where);
  if (testing::Test::HasFatalFailure()) return;
  auto at = [&](const HostTensor& x, int64_t n, int64_t y, int64_t column, int64_t c) {
    const size_t line = s.flat() ? 1 : 2;
    return x.get(static_cast<size_t>(n * x.strides[0] + (s.flat() ? 0 : y * x.strides[1]) + column * x.strides[line] + c * x.strides[line + 1]));
  };
  const double digits = s.type == DType::f32 ? 0 : s.type == DType::f16 ? std::ldexp(1, -11) : std::ldexp(1, -8);
  const int64_t taps = s.kernel_rows() * s.columns;
  for (int64_t n = 0; n < s.n; ++n) {
    for (int64_t y = 0; y < s.oh(); ++y) {
      for (int64_t x = 0; x < s.ow(); ++x) {
        for (int64_t c = 0; c < s.c; ++c) {
          double wanted = 0, size = 0;
          for (int64_t k = 0; k < taps; ++k) {
            const int64_t row = s.flat() ? 0 : y * s.stride - s.pad + k / s.columns * s.dilation, column = x * s.stride - s.pad + k % s.columns * s.dilation;
            if (row < 0 || row >= (s.flat() ? 1 : s.h) || column < 0 || column >= s.w) continue;
            const double product = at(m.tensors[0], n, row, column, c) * m.tensors[1].get(static_cast<size_t>(s.taps_last ? c * taps + k : k * s.c + c));
            wanted += product;
            size += std::abs(product);
          }
          if (s.body) {
            const double bias = m.tensors[2].get(static_cast<size_t>(c)), before = at(m.tensors[3], n, y, x, c);
            size += std::abs(bias) + std::abs(before);
            wanted = std::max(0.0, wanted + bias) + before;
          }
          // One rounding of float32 per addition, and one of the result.
          const double rounding = static_cast<double>(taps + 3) * std::ldexp(size, -24) + digits * std::abs(wanted);
          ASSERT_NEAR(at(m.tensors.back(), n, y, x, c), wanted, rounding * 1.01) << "element " << n << ", " << y << ", " << x << ", " << c;
        }
      }
    }
  }
}

std::vector<Site> sites() {
  Site three{"3 x 3", DType::f16, 2, 6, 9, 16, 3, 3}, strided = three, seven{"7 x 7", DType::bf16, 1, 7, 7, 24, 7, 7}, dilated{"3 x 3, dilation 2", DType::f32, 1, 8, 9, 8, 3, 3};
  three.pad = strided.pad = 1;
  three.body = true;
  strided.name += ", stride 2", strided.stride = 2;
  seven.pad = 3, seven.body = true;
  dilated.pad = dilated.dilation = 2;
  Site five{"5 x 5", DType::f32, 1, 9, 6, 12, 5, 5}, flat{"1-D", DType::f16, 2, 1, 21, 8, 0, 9}, odd = three, uneven = three, late = three, transposed = three;
  five.pad = 2, five.stride = 2;
  flat.pad = 4, flat.body = true;
  odd.name += ", odd addresses", odd.shifted = true;
  uneven.name += ", 11 channels", uneven.c = 11;
  late.name += ", sizes known late", late.symbolic = true;
  transposed.name += ", then channels first", transposed.channels_first = true;
  Site both{"stride 2 and dilation 2, late", DType::bf16, 2, 10, 13, 8, 3, 3}, one{"one output a line", DType::f16, 3, 7, 5, 8, 3, 5},
      bare{"nothing padded", DType::f16, 1, 6, 6, 8, 3, 3}, skipping{"places that nobody reads", DType::f32, 1, 9, 17, 4, 2, 3},
      point{"1 x 1, stride 3", DType::f16, 1, 8, 10, 8, 1, 1}, wide{"13 x 13", DType::f16, 1, 5, 5, 8, 13, 13}, flat_late = flat;
  both.stride = both.dilation = both.pad = 2, both.symbolic = true;
  skipping.stride = 4;
  point.stride = 3;
  wide.pad = 6;
  flat_late.name += ", late, odd", flat_late.symbolic = flat_late.shifted = true;
  std::vector<Site> lines;
  auto in_lines = [&](Site x, const std::string& what, int64_t width) {
    x.name += ", in lines" + what;
    x.w = width;
    x.in_lines = true;
    lines.push_back(std::move(x));
    return &lines.back();
  };
  for (const Site& x : {strided, seven, dilated, both, bare, flat}) in_lines(x, " of 16", 16);
  for (const Site& x : {three, flat_late}) in_lines(x, " of 20", 20), in_lines(x, " of 21", 21);
  Site many{"three outputs a thread", DType::f16, 4, 31, 50, 68, 3, 3};  // a few of a line, as it is long enough
  many.pad = 1;
  in_lines(flat, ", padded to 27", 24)->pad = 5;
  in_lines(flat, ", far taps", 64)->dilation = 5;
  in_lines(dilated, ", at odd addresses", 24)->shifted = true;
  in_lines(late, ", of a known size", 24)->symbolic = false;
  Site taps_last = three, flat_taps_last = flat;
  taps_last.name += ", taps are neighbours", taps_last.taps_last = taps_last.symbolic = true;
  flat_taps_last.name += ", taps are neighbours", flat_taps_last.taps_last = true;
  // Results along lines after channels that are neighbours.
  auto behind = [&](Site x, const std::string& what, int64_t width, int64_t channels) {
    x.name += ", then channels first, " + what;
    x.w = width;
    x.c = channels;
    x.channels_first = true;
    lines.push_back(std::move(x));
  };
  behind(three, "lines of 8", 8, 16), behind(three, "lines of 8, 36 channels", 8, 36), behind(three, "lines of 10, 20 channels", 10, 20),
      behind(three, "lines of 9, 11 channels", 9, 11);
  behind(odd, "lines of 12", 12, 32), behind(late, "lines of 8", 8, 16), behind(dilated, "lines of 12", 12, 8), behind(flat, "lines of 24", 24, 40),
      behind(strided, "lines of 16", 16, 32);
  std::vector<Site> all{three, strided, seven, dilated,  five,  flat, odd,       uneven,    late,           transposed,
                        both,  one,     bare,  skipping, point, wide, flat_late, taps_last, flat_taps_last, many};
  all.insert(all.end(), lines.begin(), lines.end());
  return all;
}

TEST(cuda_depthwise_conv_emulated, equals_double) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Site& s : some(sites(), 10)) {
    check(s, Where::early);
    if (HasFatalFailure()) return;
  }
}

// Seven outputs of a line have no alignment together.
TEST(cuda_depthwise_conv_vectors, are_powers_of_two) {
  Site s{"seven outputs a thread, then channels first", DType::f16, 32, 7, 7, 768, 3, 3};
  s.pad = 1, s.channels_first = true;
  Made m = make(s);
  const EmittedStep code = emit_depthwise_conv(m.conv, m.body, m.layouts);
  const kernels::DepthwiseConvCudaArgs args = kernels::parse_depthwise_conv_cuda(code.constants);
  EXPECT_EQ(args.tile, 7);
  for (const auto& operand : args.operands) EXPECT_TRUE(std::has_single_bit(operand.vector)) << int{operand.vector};
}

// The constants in the text differ from the operands.
TEST(cuda_depthwise_conv_operands, are_checked) {
  auto expect_refused = [](const std::string& what, const std::function<void(Made&)>& spoil) {
    Site s{"3 x 3", DType::f16, 1, 5, 6, 8, 3, 3};
    s.body = true;
    Made m = make(s);
    EmittedStep code = emit_depthwise_conv(m.conv, m.body, m.layouts);
    spoil(m);
    std::vector<int64_t> sizes;
    for (const Dim& d : code.sizes) sizes.push_back(d.value());
    std::vector<TensorRef> operands;
    for (HostTensor& x : m.tensors) operands.push_back({x.bytes.data(), x.dtype, static_cast<int>(x.dims.size()), x.dims.data(), x.strides.data()});
    Call call;
    auto constants = kernels::load_depthwise_conv_cuda(code.constants, operands.size(), sizes.size());
    call.operands = operands;
    call.sizes = sizes;
    call.constants = constants.get();
    EXPECT_THROW(kernels::depthwise_conv_cuda_launches(call, {4, false}), Error) << what;
  };
  expect_refused("A is shorter", [](Made& m) { m.tensors[0].dims[1] = 4; });
  expect_refused("A has fewer channels", [](Made& m) { m.tensors[0].dims[3] = 7; });
  expect_refused("A is of another type", [](Made& m) { m.tensors[0].dtype = DType::bf16; });
  expect_refused("channels of A are strided", [](Made& m) { m.tensors[0].strides[3] = 2; });
  expect_refused("B is smaller", [](Made& m) { m.tensors[1].dims[4] = 2; });
  expect_refused("B has one tap", [](Made& m) { m.tensors[1].dims[4] = 1; });
  expect_refused("what is loaded has one row", [](Made& m) { m.tensors[3].dims[1] = 1; });
  expect_refused("the result is larger", [](Made& m) { m.tensors[4].dims[0] = 2; });
}

TEST(cuda_depthwise_conv, equals_double) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Site& s : sites()) check(s, Where::gpu);
  for (DType type : {DType::f16, DType::bf16, DType::f32}) {
    Site many{"7 x 7 of 32 x 32 x 96", type, 2, 32, 32, 96, 7, 7};
    many.pad = 3, many.body = true;
    check(many, Where::gpu);
    many.symbolic = true;
    check(many, Where::gpu);
  }
}

}  // namespace
}  // namespace ingot::backend::cuda
