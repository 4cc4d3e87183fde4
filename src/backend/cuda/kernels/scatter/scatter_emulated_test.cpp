// Scatters that combine updates in any order, and those that set few points, on the host and, where there is one, on a GPU: few and many destinations, indices along an axis and of whole rows,
// infinities; sums against double.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cuda/available_test.h"
#include "backend/cuda/compile/emulated_test.h"
#include "backend/cuda/kernels/scatter/run/scatter_args.h"
#include "backend/cuda/kernels/scatter/run/scatter_launches.h"
#include "backend/cuda/kernels/scatter/scatter.h"
#include "kernels/scatter/run/scatter_checks.h"

namespace ingot::backend::cuda {
namespace {

using ir::DType;
using Kind = kernels::ScatterArgs::Kind;

// out [rows, columns], scattered by one index along the rows: of whole rows, or (`along`) of elements.
struct Site {
  std::string name;
  Kind kind;
  DType type;
  int64_t rows, columns, updates;
  bool along = false;
  std::vector<size_t> order = {};  // of the updates' axes in memory
  bool special = false;
};

double combined(Kind kind, double a, double b) {
  if (kind == Kind::set) return b;
  if (kind == Kind::add) return a + b;
  if (std::isnan(a) || std::isnan(b)) return NAN;
  return kind == Kind::min ? std::min(a, b) : std::max(a, b);
}

void check(const Site& s, Where where) {
  SCOPED_TRACE(s.name);
  const std::vector<int64_t> of_index = s.along ? std::vector<int64_t>{s.updates, s.columns} : std::vector<int64_t>{s.updates};
  HostTensor index(DType::i64, of_index, s.along ? s.order : std::vector<size_t>{}), updates(s.type, {s.updates, s.columns}, s.order), out(s.type, {s.rows, s.columns});
  std::mt19937 random(3);
  for (size_t e = 0; e < index.elements(); ++e) index.set(e, static_cast<double>(random() % static_cast<uint64_t>(s.rows)));
  updates.fill(5, true);
  out.fill(6, true);
  const double odd[] = {INFINITY, -INFINITY, NAN, 1e30, -0.0, 0.0, 1e-42, -1e30};
  for (size_t e = 0; s.special && e < updates.elements(); ++e) {
    if (random() % 4 == 0) updates.set(e, odd[random() % 8]);
  }
  std::vector<double> want, size;
  for (size_t e = 0; e < out.elements(); ++e) want.push_back(out.get(e)), size.push_back(std::fabs(out.get(e)));
  for (int64_t r = 0; r < s.updates; ++r) {
    for (int64_t c = 0; c < s.columns; ++c) {
      const double x = updates.get(static_cast<size_t>(r * updates.strides[0] + c * updates.strides[1]));
      const auto row = static_cast<int64_t>(index.get(static_cast<size_t>(s.along ? r * index.strides[0] + c * index.strides[1] : r)));
      const auto to = static_cast<size_t>(row * s.columns + c);
      want[to] = combined(s.kind, want[to], x);
      if (std::isfinite(x)) size[to] = std::max(size[to], std::fabs(x));
    }
  }
  const kernels::ScatterArgs args{s.kind, false, 0, {0}};
  const bool sets = s.kind == Kind::set;
  std::string text =
      std::string(kernels::axes_cuda_text()) + std::string(kernels::elements_cuda_text()) + std::string(sets ? kernels::scatter_cuda_text() : kernels::scatter_at_once_cuda_text());
  std::vector<std::string> names;
  for (const kernels::CudaPart& part : sets ? kernels::scatter_cuda_parts(args, s.type) : kernels::scatter_at_once_cuda_parts(args, s.type)) {
    text += part.text;
    names.insert(names.end(), part.kernels.begin(), part.kernels.end());
  }
  const std::string name = sets ? kernels::scatter_cuda_name(s.kind, s.type) : kernels::scatter_at_once_cuda_name(s.kind, s.type, 1);
  std::vector<HostTensor*> tensors{&updates, &index, &out};
  if (s.along) std::swap(tensors[0], tensors[1]);
  run_printed({{s.along ? "scatter_along" : "scatter", kernels::serialise(args), {}},
               name,
               text,
               names,
               s.along ? kernels::load_scatter_along : kernels::load_scatter,
               s.along ? kernels::scatter_along_cuda_launches : kernels::scatter_cuda_launches},
              tensors, {}, where, 0, 2);
  const double eps = s.type == DType::f32 ? 6e-8 : s.type == DType::f16 ? 4.9e-4 : s.type == DType::bf16 ? 3.9e-3 : 0;
  for (size_t e = 0; e < want.size(); ++e) {
    const double got = out.get(e);
    if (got == want[e] || (std::isnan(got) && std::isnan(want[e]))) continue;
    // The result is rounded once; units are 2^-40 of the largest update or less.
    ASSERT_LE(std::fabs(got - want[e]), s.kind == Kind::add ? eps * std::fabs(want[e]) + 1e-11 * size[e] : 0.0) << "element " << e << ": " << got << " instead of " << want[e];
  }
}

std::vector<Site> sites() {
  return {{"rows of floats", Kind::add, DType::f32, 50, 40, 300},
          {"few rows of floats", Kind::add, DType::f32, 7, 3, 9000},
          {"floats along an axis, transposed", Kind::add, DType::f32, 30, 9, 400, true, {1, 0}},
          {"floats, infinities and NaN", Kind::add, DType::f32, 60, 40, 150, false, {}, true},
          {"few floats, infinities and NaN", Kind::add, DType::f32, 500, 2, 1100, true, {}, true},
          {"halves", Kind::add, DType::f16, 50, 40, 300},
          {"few halves of 8 bits", Kind::add, DType::bf16, 5, 5, 2000},
          {"largest floats", Kind::max, DType::f32, 60, 40, 150, false, {}, true},
          {"few smallest doubles", Kind::min, DType::f64, 9, 2, 2000, true, {}, true},
          {"lines of floats", Kind::add, DType::f32, 30, 9, 400, true, {1, 0}, true},
          {"lines of halves", Kind::add, DType::bf16, 2, 70, 30, true, {1, 0}},
          {"lines of doubles", Kind::add, DType::f64, 30, 140, 40, true, {1, 0}},  // a GPU sorts fewer lines than it has multiprocessors
          {"lines of doubles, infinities and NaN", Kind::add, DType::f64, 300, 140, 100, true, {1, 0}, true},
          {"integers", Kind::add, DType::i64, 3000, 1, 4000},
          {"few integers", Kind::add, DType::i64, 65, 1, 9000},
          {"few integers along an axis", Kind::min, DType::i32, 5, 6, 900, true, {1, 0}},
          {"few points are set", Kind::set, DType::bf16, 9, 100, 40},
          {"few points of lines are set", Kind::set, DType::f32, 9, 30, 63, true, {1, 0}}};
}

// Keys of some tokens of several sequences, written into their cache [batch, heads, places, width] by two indices: the sequences, which repeat along tokens, and the places.
void check_cache(int64_t batch, int64_t tokens, Where where) {
  SCOPED_TRACE(fmt::format("{} sequences, {} tokens", batch, tokens));
  constexpr int64_t heads = 3, places = 20, width = 40;
  HostTensor updates(DType::bf16, {batch, tokens, heads, width}, {0, 2, 1, 3}), rows(DType::i64, {batch, tokens}), place(DType::i64, {batch, tokens}),
      out(DType::bf16, {batch, heads, places, width});
  updates.fill(5, true);
  out.fill(6, true);
  for (int64_t b = 0; b < batch; ++b) rows.set(static_cast<size_t>(b), static_cast<double>(b));
  rows.strides = {1, 0};
  HostTensor want = out;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t t = 0; t < tokens; ++t) {
      const int64_t to = (3 + 5 * b + t) % places;
      place.set(static_cast<size_t>(b * tokens + t), static_cast<double>(to));
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t w = 0; w < width; ++w) {
          want.set(static_cast<size_t>(((b * heads + h) * places + to) * width + w),
                   updates.get(static_cast<size_t>(b * updates.strides[0] + t * updates.strides[1] + h * updates.strides[2] + w)));
        }
      }
    }
  }
  const kernels::ScatterArgs args{Kind::set, false, 0, {0, 2}};
  std::string text = std::string(kernels::axes_cuda_text()) + std::string(kernels::elements_cuda_text()) + std::string(kernels::scatter_cuda_text());
  std::vector<std::string> names;
  for (const kernels::CudaPart& part : kernels::scatter_cuda_parts(args, DType::bf16)) {
    text += part.text;
    names.insert(names.end(), part.kernels.begin(), part.kernels.end());
  }
  std::vector<HostTensor*> tensors{&updates, &rows, &place, &out};
  run_printed({{"scatter", kernels::serialise(args), {}}, kernels::scatter_cuda_name(Kind::set, DType::bf16), text, names, kernels::load_scatter, kernels::scatter_cuda_launches},
              tensors, {}, where, 0, 2);
  for (size_t e = 0; e < want.elements(); ++e) ASSERT_EQ(out.get(e), want.get(e)) << "element " << e;
}

TEST(cuda_scatter_emulated, writes_into_caches) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const auto& [batch, tokens] : {std::pair(1, 1), std::pair(8, 1), std::pair(3, 5)}) check_cache(batch, tokens, Where::early);
}

TEST(cuda_scatter, writes_into_caches) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const auto& [batch, tokens] : {std::pair(1, 1), std::pair(8, 1), std::pair(3, 5), std::pair(8, 8)}) check_cache(batch, tokens, Where::gpu);
}

TEST(cuda_scatter_emulated, combines_at_once) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Site& s : sites()) {
    check(s, Where::early);
    if (HasFatalFailure()) return;
  }
}

TEST(cuda_scatter, combines_at_once) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Site& s : sites()) check(s, Where::gpu);
}

}  // namespace
}  // namespace ingot::backend::cuda
