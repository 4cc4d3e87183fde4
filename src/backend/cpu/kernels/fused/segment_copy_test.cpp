// Random copies: each axis of the operand is read as it is, backwards, through a guard, or at clamped indices.
#include "backend/cpu/kernels/fused/run/segment_copy.h"

#include <gtest/gtest.h>

#include <random>

#include "backend/cpu/compile/body_builder_test.h"
#include "base/parallel.h"

namespace ingot::backend::cpu {
namespace {

using ir::DType;
using ir::Op;

class RandomCopy {
 public:
  explicit RandomCopy(unsigned seed)
      : random_(seed), domain_{pick(1, 4), pick(1, 9), lengths[pick(0, std::ssize(lengths) - 1)]}, k_(std::vector<int64_t>(domain_.begin(), domain_.end() - 1), {domain_.back()}) {
    if (pick(0, 9) == 0) domain_ = {1, 1, 40000}, k_ = BodyBuilder({1, 1}, {40000});
  }

  template <class M>
  void run(DType type, M fill) {
    std::vector<int64_t> dims, strides(3, 0), more_dims, more_strides, lower, step;
    std::vector<Reg> indices;
    std::vector<std::vector<int64_t>> places(3);  // per axis, in elements; -1: outside
    int64_t stride = 1, base = 0;
    const bool guards = pick(0, 1) == 0;
    for (size_t a = 3; a-- > 0;) {
      const int64_t n = domain_[a], kind = pick(0, 2);
      int64_t extent = n, by = 1, from = 0;
      if (kind == 0 && guards) extent = pick(1, n + 2), by = pick(0, 3) == 0 ? 2 : 1, from = pick(-1, 3);
      if (kind == 1 && !guards) {
        extent = pick(1, n + 1), from = pick(-1, 3);
        const Reg shifted = k_.map(Op::sub, DType::i64, {k_.index(static_cast<uint32_t>(a)), k_.number(from, DType::i64)});
        const Reg least = k_.map(Op::max, DType::i64, {shifted, k_.number(int64_t{0}, DType::i64)});
        indices.insert(indices.begin(), k_.map(Op::min, DType::i64, {least, k_.number(extent - 1, DType::i64)}));
        more_dims.insert(more_dims.begin(), extent);
        more_strides.insert(more_strides.begin(), stride);
        for (int64_t c = 0; c < n; ++c) places[a].push_back(std::clamp<int64_t>(c - from, 0, extent - 1) * stride);
        dims.insert(dims.begin(), n);  // not read along the axis itself
        lower.insert(lower.begin(), 0), step.insert(step.begin(), 1);
      } else {
        const bool backwards = kind == 2 && !guards;
        for (int64_t c = 0; c < n; ++c) {
          const int64_t at = c * by - from;
          places[a].push_back(at < 0 || at >= extent ? -1 : backwards ? (n - 1 - at) * stride : at * stride);
        }
        strides[a] = backwards ? -stride : stride;
        base += backwards ? (n - 1) * stride : 0;
        dims.insert(dims.begin(), extent);
        lower.insert(lower.begin(), from), step.insert(step.begin(), by);
      }
      stride *= extent + pick(0, 1);
    }
    const int64_t row = domain_[2] + 2 * pick(0, 1);
    std::vector<M> x(static_cast<size_t>(stride)), y(static_cast<size_t>(domain_[0] * domain_[1] * row), M(77));
    for (size_t n = 0; n < x.size(); ++n) x[n] = static_cast<M>(n % 61);
    const Reg value = k_.load(type, indices);
    if (guards) {
      Instruction& i = k_.body.code.back();
      i.lower.assign(lower.begin(), lower.end());
      i.step.assign(step.begin(), step.end());
      i.number = ir::is_float(type) ? ir::Scalar(static_cast<double>(fill)) : ir::Scalar(static_cast<int64_t>(fill));
    }
    k_.store(type, value);
    dims.insert(dims.end(), more_dims.begin(), more_dims.end());
    strides.insert(strides.end(), more_strides.begin(), more_strides.end());
    auto threads = make_pool(2);
    FusedStep(k_.body, {{x.data() + base, dims, strides}, {y.data(), domain_, {domain_[1] * row, row, 1}}}, *threads).run();
    for (int64_t i = 0; i < domain_[0] * domain_[1]; ++i) {
      for (int64_t c = 0; c < row; ++c) {
        const int64_t at[] = {places[0][static_cast<size_t>(i / domain_[1])], places[1][static_cast<size_t>(i % domain_[1])],
                              c < domain_[2] ? places[2][static_cast<size_t>(c)] : -1};
        const bool outside = at[0] < 0 || at[1] < 0 || at[2] < 0;
        const M want = c >= domain_[2] ? M(77) : outside ? fill : x[static_cast<size_t>(at[0] + at[1] + at[2])];
        ASSERT_EQ(y[static_cast<size_t>(i * row + c)], want) << "row " << i << ", column " << c << " of " << domain_[2];
      }
    }
  }

 private:
  static constexpr int64_t lengths[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 33, 64, 70, 129, 300, 1030};
  int64_t pick(int64_t from, int64_t to) { return std::uniform_int_distribution<int64_t>(from, to)(random_); }

  std::mt19937 random_;
  std::vector<int64_t> domain_;
  BodyBuilder k_;
};

TEST(segment_copy, random_copies) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    RandomCopy copy(seed);
    switch (seed % 4) {
      case 0: copy.run<float>(DType::f32, -7); break;
      case 1: copy.run<int8_t>(DType::i8, -7); break;
      case 2: copy.run<double>(DType::f64, 0.5); break;
      default: copy.run<int16_t>(DType::i16, 9);
    }
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// Padded rows are one segment between two that are filled; tasks share a long one.
TEST(segment_copy, of_a_padding) {
  auto parts = [](int64_t rows, int64_t columns) {
    BodyBuilder k({rows}, {columns + 2});
    const Reg x = k.load(DType::f32);
    k.body.code.back().lower = {0, 1};
    k.store(DType::f32, x);
    const Emitted code = emit(k.body);
    std::vector<int64_t> sizes;
    for (const ir::Dim& d : code.sizes) sizes.push_back(d.value());
    const int64_t in[] = {rows, columns}, in_strides[] = {columns, 1}, out[] = {rows, columns + 2}, out_strides[] = {columns + 2, 1};
    std::byte nothing{};
    const std::vector<TensorRef> operands{{&nothing, DType::f32, 2, in, in_strides}, {&nothing, DType::f32, 2, out, out_strides}};
    const kernels::Cut cut = kernels::cut_program(*kernels::load_program(code.code, 2, sizes.size()), operands, sizes, {rows, columns + 2});
    return kernels::segment_copy(cut, 2).value().parts;
  };
  ASSERT_EQ(parts(100, 64).size(), 1u);
  ASSERT_EQ(parts(100, 64)[0].size(), 3u);
  EXPECT_EQ(parts(100, 64)[0][1].n, 64);
  EXPECT_EQ(parts(1, 40000).size(), 8u);
}

// Lines of channels between padded places are part of the row.
TEST(segment_copy, of_padded_lines) {
  constexpr int64_t places = 20, channels = 3;
  BodyBuilder k({places + 2}, {channels});
  const Reg x = k.load(DType::i8);
  k.body.code.back().lower = {1, 0};
  k.store(DType::i8, x);
  const Emitted code = emit(k.body);
  std::vector<int64_t> sizes;
  for (const ir::Dim& d : code.sizes) sizes.push_back(d.value());
  const int64_t in[] = {places, channels}, out[] = {places + 2, channels}, strides[] = {channels, 1};
  std::byte nothing{};
  const std::vector<TensorRef> operands{{&nothing, DType::i8, 2, in, strides}, {&nothing, DType::i8, 2, out, strides}};
  const kernels::Cut cut = kernels::cut_program(*kernels::load_program(code.code, 2, sizes.size()), operands, sizes, {places + 2, channels});
  const kernels::SegmentCopy copy = kernels::segment_copy(cut, 1).value();
  EXPECT_EQ(copy.rows, 1);
  ASSERT_EQ(copy.parts[0].size(), 3u);
  EXPECT_EQ(copy.parts[0][1].n, places * channels);
}

}  // namespace
}  // namespace ingot::backend::cpu
