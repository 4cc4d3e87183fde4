// Convolutions in groups and of few columns on the host and, if there is one, on a GPU, against double: kernels, strides, padding, dilation, sizes that fill no
// tile, layouts of A, B and the result, odd addresses.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backend/cpu/compile/body_builder_test.h"
#include "backend/cuda/available_test.h"
#include "backend/cuda/compile/emulated_test.h"
#include "backend/cuda/kernels/gemm/grouped_convolution/grouped_convolution_text.h"
#include "backend/cuda/kernels/gemm/grouped_convolution/run/grouped_convolution.h"

namespace ingot::backend::cuda {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;

struct Site {
  std::string name;
  DType type = DType::f16;
  int64_t n = 1, h = 6, w = 9, groups = 4, channels = 4, columns = 4, rows = 3, taps = 3;
  int64_t stride = 1, pad = 1, dilation = 1, later = 0;  // later: windows begin so many places on
  bool channels_first = false, results_first = false;  // A, and the result with what is added to it: [N, C, H, W]
  bool along_k = false;  // B
  bool merged = true;  // rows of an image are rows of one product
  bool shifted = false;
  bool matrices = false;  // matrix instructions multiply, where the site is for them

  int64_t out(int64_t size, int64_t kernel) const { return (size + 2 * pad - (kernel - 1) * dilation - 1) / stride + 1; }
  int64_t oh() const { return out(h, rows); }
  int64_t ow() const { return out(w, taps); }
  int64_t k() const { return rows * taps * channels; }
};

struct Made {
  std::vector<HostTensor> tensors;  // A, B, bias, before, result; memory in the order of dims
  FusedBody body;
  Gemm gemm;
  std::vector<StridedLayout> layouts;
};

StridedLayout layout(std::vector<int64_t> dims, std::vector<int64_t> strides) { return {ir::Dims(dims.begin(), dims.end()), ir::Dims(strides.begin(), strides.end()), 0}; }

// The site as compile makes it: [groups, N x lines x outputs, columns], or with a batch axis for N and for lines.
Made make(const Site& s) {
  Made m;
  const int64_t oh = s.oh(), ow = s.ow(), places = s.n * oh * ow, all = s.groups * s.channels, results = s.groups * s.columns;
  auto of_a = [&](std::vector<int64_t> nhwgc, std::vector<int64_t> ngchw) { return s.channels_first ? ngchw : nhwgc; };
  const std::vector<int64_t> a_dims{s.n, s.h, s.w, s.groups, s.channels};
  const std::vector<int64_t> a_strides = of_a({s.h * s.w * all, s.w * all, all, s.channels, 1}, {s.h * s.w * all, s.w, 1, s.channels * s.h * s.w, s.h * s.w});
  std::vector<int64_t> batch{s.groups}, rows{s.n, oh, ow};
  if (!s.merged) batch = {s.groups, s.n, oh}, rows = {ow};
  std::vector<int64_t> dims = batch, b_dims = batch, bias_dims(batch.size(), 1);
  dims.insert(dims.end(), {places / (s.merged ? 1 : s.n * oh), s.columns});
  b_dims.insert(b_dims.end(), {s.k(), s.columns});
  bias_dims[0] = s.groups;
  bias_dims.insert(bias_dims.end(), {1, s.columns});
  std::vector<int64_t> b_strides(batch.size(), 0), bias_strides(bias_dims.size(), 0);
  b_strides[0] = s.groups == 1 ? 0 : s.k() * s.columns;
  b_strides.insert(b_strides.end(), {s.along_k ? 1 : s.columns, s.along_k ? s.k() : 1});
  bias_strides[0] = s.columns, bias_strides.back() = 1;
  std::vector<int64_t> strides = s.results_first ? std::vector<int64_t>{s.columns * oh * ow, 1, oh * ow} : std::vector<int64_t>{s.columns, results, 1};
  if (!s.merged)
    strides = s.results_first ? std::vector<int64_t>{s.columns * oh * ow, results * oh * ow, ow, 1, oh * ow}
                              : std::vector<int64_t>{s.columns, results * oh * ow, results * ow, results, 1};
  auto add = [&](DType type, const std::vector<int64_t>& d, const std::vector<int64_t>& st, int64_t elements, uint32_t seed) {
    HostTensor t(type, {elements});
    t.fill(seed, true);
    t.dims = d;
    t.strides = st;
    m.tensors.push_back(std::move(t));
  };
  add(s.type, a_dims, a_strides, s.n * s.h * s.w * all, 3);
  add(s.type, b_dims, b_strides, s.groups * s.k() * s.columns, 4);
  add(DType::f32, bias_dims, bias_strides, results, 5);
  add(s.type, dims, strides, places * results, 6);
  add(s.type, dims, strides, places * results, 7);
  cpu::BodyBuilder b({dims.begin(), dims.end() - 1}, {s.columns});
  Instruction sum{};
  sum.kind = Instruction::Kind::accumulator;
  sum.dtype = DType::f32;
  Reg r = b.map(Op::relu, DType::f32, {b.map(Op::add, DType::f32, {b.push(sum), b.load(DType::f32)})});
  b.store(s.type, b.map(Op::add, DType::f32, {r, b.load(s.type)}));
  m.body = std::move(b.body);
  m.gemm.type = s.type;
  m.gemm.a = layout(a_dims, a_strides);
  m.gemm.b = {layout(b_dims, b_strides)};
  m.gemm.batch_rank = batch.size();
  m.gemm.m_rank = rows.size();
  m.gemm.convolution = true;
  ir::AffineMap map;
  for (int64_t d : batch) map.dims.push_back(d);
  for (int64_t d : rows) map.dims.push_back(d);
  for (int64_t d : {s.rows, s.taps, s.channels}) map.dims.push_back(d);
  // Indices: groups, N, lines, outputs, rows and taps of the kernel, channels.
  map.axes = {{0, {{1, 1}}}, {Dim(s.later - s.pad), {{2, s.stride}, {4, s.dilation}}}, {Dim(s.later - s.pad), {{3, s.stride}, {5, s.dilation}}}, {0, {{0, 1}}}, {0, {{6, 1}}}};
  m.gemm.map = std::move(map);
  for (size_t k = 2; k < m.tensors.size(); ++k) m.layouts.push_back(layout(m.tensors[k].dims, m.tensors[k].strides));
  return m;
}

void expect_sums(const Site& s, const Made& m) {
  auto at = [](const HostTensor& x, std::vector<int64_t> index) {
    int64_t place = 0;
    for (size_t d = 0; d < index.size(); ++d) place += index[d] * (x.dims[d] == 1 ? 0 : x.strides[d]);
    return x.get(static_cast<size_t>(place));
  };
  // A float is rounded to TF32 before matrix instructions multiply it.
  const double factors = s.matrices && s.type == DType::f32 ? std::ldexp(1, -10) : 0;
  const double digits = s.type == DType::f32 ? 0 : s.type == DType::f16 ? std::ldexp(1, -11) : std::ldexp(1, -8);
  for (int64_t e = 0; e < s.groups * s.n * s.oh() * s.ow() * s.columns; ++e) {
    const int64_t column = e % s.columns, x = e / s.columns % s.ow(), y = e / s.columns / s.ow() % s.oh(), n = e / s.columns / s.ow() / s.oh() % s.n,
                  g = e / s.columns / s.ow() / s.oh() / s.n;
    double wanted = 0, size = 0;
    for (int64_t k = 0; k < s.k(); ++k) {
      const int64_t c = k % s.channels, row = y * s.stride + s.later - s.pad + k / s.channels / s.taps * s.dilation,
                    place = x * s.stride + s.later - s.pad + k / s.channels % s.taps * s.dilation;
      if (row < 0 || row >= s.h || place < 0 || place >= s.w) continue;
      const double product =
          at(m.tensors[0], {n, row, place, g, c}) * m.tensors[1].get(static_cast<size_t>(g * s.k() * s.columns + (s.along_k ? column * s.k() + k : k * s.columns + column)));
      wanted += product;
      size += std::abs(product);
    }
    std::vector<int64_t> index = s.merged ? std::vector<int64_t>{g, (n * s.oh() + y) * s.ow() + x, column} : std::vector<int64_t>{g, n, y, x, column};
    const double bias = m.tensors[2].get(static_cast<size_t>(g * s.columns + column)), before = at(m.tensors[3], index);
    size += std::abs(bias) + std::abs(before);
    wanted = std::max(0.0, wanted + bias) + before;
    const double rounding = (static_cast<double>(s.k() + 3) * std::ldexp(1, -24) + factors) * size + digits * std::abs(wanted);
    ASSERT_NEAR(at(m.tensors.back(), index), wanted, rounding * 1.01) << "element " << e;
  }
}

void check(const Site& s, Where where) {
  SCOPED_TRACE(fmt::format("{}, way {}", s.name, static_cast<int>(where)));
  Made m = make(s);
  const auto obstacle = grouped_convolution_obstacle(m.gemm, m.body, m.layouts);
  ASSERT_FALSE(obstacle) << obstacle->reason;
  EmittedStep code = emit_grouped_convolution(m.gemm, m.body, m.layouts, s.matrices);
  std::vector<int64_t> sizes;
  for (const Dim& d : code.sizes) sizes.push_back(d.value());
  std::vector<HostTensor*> pointers;
  for (HostTensor& x : m.tensors) pointers.push_back(&x);
  run_printed(
      {code, code.code[0].name, std::string(windows_text()) + code.code[0].text, code.code[0].kernels, kernels::load_grouped_convolution, kernels::grouped_convolution_launches},
      pointers, sizes, where, s.shifted ? 1 : 0, 4);
  expect_sums(s, m);
}

// Phases of a transposed convolution as rows of one launch.
void check_joined(const std::vector<Site>& sites, Where where) {
  SCOPED_TRACE(fmt::format("{} times {}, way {}", sites.size(), sites[0].name, static_cast<int>(where)));
  std::vector<Made> made;
  for (const Site& s : sites) made.push_back(make(s));
  std::vector<PrintedPart> parts;
  for (Made& m : made) {
    EmittedStep code = emit_grouped_convolution(m.gemm, m.body, m.layouts, sites[0].matrices);
    parts.push_back({std::move(code), 1, {}});
    for (HostTensor& x : m.tensors) parts.back().tensors.push_back(&x);
  }
  run_joined(parts, where, sites[0].shifted ? 1 : 0, 4);
  for (size_t i = 0; i < made.size(); ++i) expect_sums(sites[i], made[i]);
}

std::vector<Site> sites() {
  const Site plain{"4 groups of 4"};
  std::vector<Site> all{plain};
  auto add = [&](const std::string& name, const std::function<void(Site&)>& change) {
    all.push_back(plain);
    all.back().name = name;
    change(all.back());
  };
  add("B along K", [](Site& s) { s.along_k = true; });
  add("8 channels to 16 columns, B along K", [](Site& s) { s.channels = 8, s.columns = 16, s.along_k = true, s.groups = 3; });
  add("16 channels to 8 columns, stride 2", [](Site& s) { s.channels = 16, s.columns = 8, s.stride = 2, s.n = 2, s.h = 7; });
  add("3 channels to 5 columns", [](Site& s) { s.channels = 3, s.columns = 5, s.type = DType::bf16; });
  add("floats", [](Site& s) { s.type = DType::f32, s.columns = 6, s.channels = 2; });
  add("dilation 2", [](Site& s) { s.dilation = 2, s.pad = 2, s.w = 13; });
  add("stride 3, dilation 2, no padding", [](Site& s) { s.stride = 3, s.dilation = 2, s.pad = 0, s.h = 11, s.w = 17; });
  add("1 x 5", [](Site& s) { s.rows = 1, s.taps = 5, s.pad = 2; });
  add("a line", [](Site& s) { s.h = 1, s.rows = 1, s.pad = 0, s.w = 40, s.taps = 7; });
  add("one output a line", [](Site& s) { s.w = 3, s.pad = 0; });
  add("1 x 1", [](Site& s) { s.rows = s.taps = 1, s.pad = 0, s.groups = 6, s.channels = 10; });
  add("results first, lines of 8", [](Site& s) { s.results_first = true, s.w = 8; });
  add("results first, lines of 9", [](Site& s) { s.results_first = true; });
  add("images and results first", [](Site& s) { s.results_first = s.channels_first = true, s.w = 12, s.n = 2, s.merged = false; });
  add("images first", [](Site& s) { s.channels_first = true, s.groups = 2, s.channels = 6; });
  add("lines are batches", [](Site& s) { s.merged = false, s.n = 2; });
  add("odd addresses", [](Site& s) { s.shifted = true, s.columns = 8; });
  add("odd addresses, B along K", [](Site& s) { s.shifted = s.along_k = true; });
  add("3 columns alone", [](Site& s) { s.groups = 1, s.channels = 32, s.columns = 3, s.along_k = true, s.results_first = true, s.w = 16; });
  add("64 channels to 3 columns alone, lanes share sums", [](Site& s) { s.groups = 1, s.channels = 64, s.columns = 3, s.rows = 2; });
  add("floats, 16 channels to 2 columns alone, B along K, odd addresses",
      [](Site& s) { s.type = DType::f32, s.groups = 1, s.channels = 16, s.columns = 2, s.along_k = s.shifted = true, s.stride = 2; });
  add("1 column alone, images first",
      [](Site& s) { s.groups = 1, s.channels = 12, s.columns = 1, s.channels_first = s.results_first = true, s.h = 1, s.rows = 1, s.pad = 3, s.w = 50, s.taps = 7; });
  for (bool along_k : {false, true}) {
    auto matrices = [&](const std::string& name, const std::function<void(Site&)>& change) {
      add(name + (along_k ? ", B along K" : ""), [&](Site& s) { s.matrices = true, s.channels = s.columns = 16, s.along_k = along_k, change(s); });
    };
    matrices("by matrices, lines of 9", [](Site&) {});
    matrices("by matrices, lines of 16, results first", [](Site& s) { s.w = 16, s.results_first = true; });
    matrices("by matrices, 8 channels to 8, lines of 20, stride 2", [](Site& s) { s.channels = s.columns = 8, s.w = 40, s.stride = 2, s.n = 2; });
    matrices("by matrices, floats, 4 channels to 8", [](Site& s) { s.type = DType::f32, s.channels = 4, s.columns = 8, s.w = 33; });
    matrices("by matrices, floats, 12 channels to 16", [](Site& s) { s.type = DType::f32, s.channels = 12, s.merged = false; });
    matrices("by matrices, odd addresses", [](Site& s) { s.shifted = true, s.channels = 8; });
    matrices("by matrices, without padding, dilation 2", [](Site& s) { s.type = DType::bf16, s.pad = 0, s.dilation = 2, s.w = 21; });
  }
  add("many outputs", [](Site& s) { s.n = 3, s.h = s.w = 40, s.groups = 8; });
  return all;
}

// Random problems in addition to the chosen ones.
Site random_site(uint32_t seed) {
  std::mt19937 random(seed);
  auto of = [&](int64_t low, int64_t high) { return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1)); };
  Site s{fmt::format("random {}", seed)};
  s.type = std::array{DType::f16, DType::bf16, DType::f32}[random() % 3];
  s.groups = of(1, 6), s.channels = of(1, 20), s.columns = of(1, s.groups == 1 ? 4 : 16), s.n = of(1, 3), s.rows = of(1, 4), s.taps = of(1, 4);
  s.stride = of(1, 3), s.pad = of(0, 2), s.dilation = of(1, 2);
  s.h = of(s.rows * s.dilation, 9), s.w = of(s.taps * s.dilation, 20);
  s.channels_first = random() % 2 == 0, s.results_first = random() % 2 == 0, s.along_k = random() % 2 == 0, s.shifted = random() % 4 == 0;
  if (random() % 2 == 0) s.matrices = true, s.channels = 4 * of(1, 5), s.columns = 8 * of(1, 2), s.groups = std::max<int64_t>(s.groups, 2);
  s.merged = s.n == 1 || !s.results_first ? random() % 2 == 0 : false;
  return s;
}

TEST(cuda_grouped_convolution_emulated, equals_double) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  std::vector<Site> all = sites();
  for (uint32_t seed = 0; seed < 8; ++seed) all.push_back(random_site(seed));
  for (const Site& s : some(all, 10)) {
    check(s, Where::early);
    if (HasFatalFailure()) return;
  }
}

std::vector<std::vector<Site>> joined_sites() {
  std::vector<std::vector<Site>> out;
  for (bool matrices : {false, true}) {
    Site s{"2 x 2"};
    s.rows = s.taps = 2, s.matrices = matrices, s.channels = s.columns = matrices ? 16 : 4;
    std::vector<Site> phases(3, s);
    phases[1].later = 1, phases[2].later = 2;
    out.push_back(phases);
  }
  return out;
}

TEST(cuda_grouped_convolution_emulated, joined_steps_equal_double) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const std::vector<Site>& sites : joined_sites()) check_joined(sites, Where::early);
}

TEST(cuda_grouped_convolution, joined_steps_equal_double) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const std::vector<Site>& sites : joined_sites()) check_joined(sites, Where::gpu);
}

TEST(cuda_grouped_convolution, equals_double) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Site& s : sites()) check(s, Where::gpu);
  for (uint32_t seed = 0; seed < 60; ++seed) check(random_site(seed), Where::gpu);
}

// Columns enough for matrix instructions go to them.
TEST(cuda_grouped_convolution, refuses_many_columns) {
  Site s;
  s.columns = 24;
  Made m = make(s);
  EXPECT_EQ(grouped_convolution_obstacle(m.gemm, m.body, m.layouts)->obstacle, Obstacle::cost);
  s.columns = 8, s.groups = 1;
  Made alone = make(s);
  EXPECT_EQ(grouped_convolution_obstacle(alone.gemm, alone.body, alone.layouts)->obstacle, Obstacle::cost);
}

}  // namespace
}  // namespace ingot::backend::cuda
