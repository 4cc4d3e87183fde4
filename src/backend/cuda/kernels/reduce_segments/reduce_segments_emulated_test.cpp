// Rows combined segment by segment, on the host and, where there is one, on a GPU, against double: empty, short and long segments, rows that are read twice, rows of any stride, odd addresses, weights, a base.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cuda/available_test.h"
#include "backend/cuda/compile/emulated_test.h"
#include "backend/cuda/kernels/reduce_segments/reduce_segments.h"
#include "backend/cuda/kernels/reduce_segments/run/reduce_segments_cuda_args.h"
#include "backend/cuda/kernels/reduce_segments/run/reduce_segments_launches.h"

namespace ingot::backend::cuda {
namespace {

using ir::DType;
using Kind = kernels::ReduceSegmentsArgs::Kind;

struct Site {
  std::string name;
  Kind kind;
  DType type;
  std::vector<int64_t> lengths;  // of the segments
  std::vector<int64_t> row;
  std::vector<size_t> order = {};  // of x's axes in memory
  bool shifted = false;
  std::vector<int64_t> weights = {};  // of a row: its sizes, or 1 where elements have one weight; empty: there are none
  bool based = false;
};

void check(const Site& s, Where where) {
  SCOPED_TRACE(s.name);
  int64_t count = 0;
  HostTensor ends(DType::i64, {std::ssize(s.lengths)});
  for (size_t k = 0; k < s.lengths.size(); ++k) ends.set(k, static_cast<double>(count += s.lengths[k]));
  std::vector<int64_t> of_x{std::max<int64_t>(1, count / 2)}, of_out{std::ssize(s.lengths)};
  of_x.insert(of_x.end(), s.row.begin(), s.row.end());
  of_out.insert(of_out.end(), s.row.begin(), s.row.end());
  HostTensor x(s.type, of_x, s.order), order(DType::i64, {count}), out(s.type, of_out);
  x.fill(5, true);
  for (size_t e = 0; s.kind == Kind::mul && e < x.elements(); ++e) x.set(e, 1 + x.get(e) / 64);  // products of many stay numbers
  std::mt19937 random(3);
  for (size_t e = 0; e < order.elements(); ++e) order.set(e, static_cast<double>(random() % static_cast<uint64_t>(of_x[0])));
  const kernels::ReduceSegmentsArgs args{s.kind, !s.weights.empty(), s.based};
  std::vector<int64_t> of_weights{count + 3};
  of_weights.insert(of_weights.end(), s.weights.begin(), s.weights.end());
  HostTensor weights(s.type, of_weights), weight_order(DType::i64, {count}), base(s.type, of_out);
  weights.fill(8, true);
  base.fill(9, true);
  for (size_t e = 0; e < weight_order.elements(); ++e) weight_order.set(e, static_cast<double>(random() % static_cast<uint64_t>(of_weights[0])));
  HostTensor expanded = weights;  // the same memory over all elements of x's rows
  for (size_t d = 0; d < s.weights.size(); ++d) {
    if (expanded.dims[d + 1] != s.row[d]) expanded.dims[d + 1] = s.row[d], expanded.strides[d + 1] = 0;
  }
  std::vector<HostTensor*> tensors{&x, &order, &ends};
  if (args.weighted) tensors.insert(tensors.end(), {&expanded, &weight_order});
  if (args.based) tensors.push_back(&base);
  tensors.push_back(&out);
  const kernels::CudaPart part = kernels::reduce_segments_cuda_part(args, s.type);
  const std::string text = std::string(kernels::axes_cuda_text()) + std::string(kernels::elements_cuda_text()) + std::string(kernels::reduce_segments_cuda_text()) + part.text;
  run_printed({{"reduce_segments", kernels::serialise(args), {}}, part.name, text, part.kernels, kernels::load_reduce_segments, kernels::reduce_segments_cuda_launches}, tensors,
              {}, where, s.shifted ? 1 : 0, 2);
  const double eps = s.type == DType::f64 ? 1.2e-16 : s.type == DType::f32 ? 6e-8 : s.type == DType::f16 ? 4.9e-4 : 3.9e-3, of_sum = s.type == DType::f64 ? 1.2e-16 : 6e-8;
  int64_t width = 1, place = 0;
  for (int64_t d : s.row) width *= d;
  for (size_t segment = 0; segment < s.lengths.size(); place += s.lengths[segment], ++segment) {
    for (int64_t e = 0; e < width; ++e) {
      int64_t offset = 0, of_weight = 0, rest = e;
      for (size_t d = s.row.size(); d-- > 0; rest /= s.row[d]) {
        offset += rest % s.row[d] * x.strides[d + 1];
        if (args.weighted) of_weight += rest % s.row[d] * expanded.strides[d + 1];
      }
      double want = s.kind == Kind::add ? 0 : s.kind == Kind::mul ? 1 : s.kind == Kind::min ? INFINITY : -INFINITY, size = 0;
      for (int64_t k = place; k < place + s.lengths[segment]; ++k) {
        double v = x.get(static_cast<size_t>(static_cast<int64_t>(order.get(static_cast<size_t>(k))) * x.strides[0] + offset));
        if (args.weighted) v *= weights.get(static_cast<size_t>(static_cast<int64_t>(weight_order.get(static_cast<size_t>(k))) * expanded.strides[0] + of_weight));
        want = s.kind == Kind::add ? want + v : s.kind == Kind::mul ? want * v : s.kind == Kind::min ? std::min(want, v) : std::max(want, v);
        size += std::fabs(v);
      }
      if (const double b = base.get(segment * static_cast<size_t>(width) + static_cast<size_t>(e)); s.based) {
        want = s.kind == Kind::add ? want + b : s.kind == Kind::mul ? want * b : s.kind == Kind::min ? std::min(want, b) : std::max(want, b);
        size += std::fabs(b);
      }
      const double got = out.get(segment * static_cast<size_t>(width) + static_cast<size_t>(e));
      if (got == want) continue;
      ASSERT_TRUE(s.kind == Kind::add || s.kind == Kind::mul);
      const double steps = static_cast<double>(s.lengths[segment]);
      ASSERT_LE(std::fabs(got - want), eps * std::fabs(want) + of_sum * (s.kind == Kind::add ? 16 * size : steps * std::fabs(want))) << "segment " << segment << ", element " << e;
    }
  }
}

std::vector<Site> sites() {
  const std::vector<int64_t> any = {3, 0, 1, 256, 7, 257, 0, 0, 900, 4, 5, 600, 256, 1}, even = {256, 512, 0, 300};
  return {{"rows of floats", Kind::add, DType::f32, any, {40}},
          {"rows of floats, odd addresses", Kind::add, DType::f32, any, {40}, {}, true},
          {"long segments that begin with a part", Kind::add, DType::f32, even, {8}},
          {"a segment", Kind::max, DType::f32, {3000}, {132}},
          {"halves", Kind::add, DType::f16, any, {48}},
          {"halves of 8 bits, at any width", Kind::min, DType::bf16, any, {33}},
          {"doubles", Kind::add, DType::f64, any, {6}},
          {"products", Kind::mul, DType::f32, {3, 0, 5, 260}, {4}},
          {"columns", Kind::add, DType::f32, any, {9}, {1, 0}},
          {"two axes that are not one", Kind::max, DType::f32, any, {3, 5}, {2, 0, 1}},
          {"rows with a weight each", Kind::add, DType::f32, any, {40}, {}, false, {1}},
          {"heads with a weight each, halves", Kind::add, DType::f16, any, {3, 8}, {}, false, {3, 1}, true},
          {"short heads with a weight each", Kind::add, DType::f32, any, {4, 2}, {}, false, {4, 1}},
          {"elements with a weight each", Kind::add, DType::f32, any, {40}, {}, false, {40}},
          {"columns with weights", Kind::add, DType::f64, any, {6}, {1, 0}, false, {1}, true},
          {"a base", Kind::max, DType::f32, any, {40}, {}, false, {}, true},
          {"nothing", Kind::add, DType::f32, {0, 0, 0}, {4}}};
}

TEST(cuda_segments_emulated, equal_double) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Site& s : sites()) {
    check(s, Where::early);
    if (HasFatalFailure()) return;
  }
}

TEST(cuda_segments, equal_double) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Site& s : sites()) check(s, Where::gpu);
  check({"many", Kind::add, DType::f32, std::vector<int64_t>(20000, 10), {128}}, Where::gpu);
}

}  // namespace
}  // namespace ingot::backend::cuda
