// The places of an index in the order of their segments, on the host and, where there is one, on a GPU, against a stable sort: few and many places, segments without places, most places in one segment, indices from
// the end.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/cuda/available_test.h"
#include "backend/cuda/compile/emulated_test.h"
#include "backend/cuda/kernels/order_segments/order_segments.h"
#include "backend/cuda/kernels/order_segments/run/order_segments_launches.h"
#include "backend/cuda/kernels/order_segments/run/tuning.h"
#include "kernels/order_segments/run/order_segments_args.h"

namespace ingot::backend::cuda {
namespace {

using ir::DType;

struct Site {
  std::string name;
  int64_t places, segments;
  bool skewed = false, wrap = false;
};

void check(const Site& s, Where where) {
  SCOPED_TRACE(s.name);
  HostTensor index(DType::i64, {s.places}), order(DType::i64, {s.places}), ends(DType::i64, {s.segments});
  std::mt19937 random(3);
  std::vector<int64_t> segments;
  for (size_t e = 0; e < static_cast<size_t>(s.places); ++e) {
    const double at = std::pow(static_cast<double>(random()) / 4294967296.0, s.skewed ? 8 : 1);
    segments.push_back(static_cast<int64_t>(at * static_cast<double>(s.segments)));
    index.set(e, static_cast<double>(s.wrap && random() % 2 == 0 ? segments.back() - s.segments : segments.back()));
  }
  const kernels::CudaPart part = kernels::order_segments_cuda_part();
  const std::string text = std::string(kernels::axes_cuda_text()) + std::string(kernels::elements_cuda_text()) + std::string(kernels::order_segments_cuda_text()) + part.text;
  run_printed({{"order_segments", kernels::serialise(kernels::OrderSegmentsArgs{s.wrap}), {}},
               part.name,
               text,
               part.kernels,
               kernels::load_order_segments,
               kernels::order_segments_cuda_launches},
              {&index, &order, &ends}, {}, where, 0, 2);
  std::vector<int64_t> want(segments.size());
  std::iota(want.begin(), want.end(), int64_t{0});
  std::stable_sort(want.begin(), want.end(), [&](int64_t a, int64_t b) { return segments[static_cast<size_t>(a)] < segments[static_cast<size_t>(b)]; });
  for (size_t k = 0; k < want.size(); ++k) ASSERT_EQ(order.get(k), static_cast<double>(want[k])) << "place " << k;
  std::vector<int64_t> counts(static_cast<size_t>(s.segments));
  for (int64_t segment : segments) ++counts[static_cast<size_t>(segment)];
  int64_t end = 0;
  for (size_t k = 0; k < counts.size(); ++k) ASSERT_EQ(ends.get(k), static_cast<double>(end += counts[k])) << "segment " << k;
}

constexpr int64_t many = kernels::order_segments_tuning::max_at_once + 1;

TEST(cuda_order_segments_emulated, is_stable) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Site& s : std::vector<Site>{{"few places", 1000, 90, false, true},
                                         {"few places, two passes", 900, 20000, true},
                                         {"one segment", 700, 1},
                                         {"a segment for each block", 700, 7},
                                         {"no places", 0, 5},
                                         {"many places", many, 20, true, true}}) {
    check(s, Where::early);
    if (HasFatalFailure()) return;
  }
}

TEST(cuda_order_segments, is_stable) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Site& s : std::vector<Site>{{"few places", 32768, 4096},
                                         {"few places, most in one segment", 32768, 4096, true, true},
                                         {"many places", 200000, 20000},
                                         {"many places, most in one segment", 200000, 20000, true},
                                         {"buckets of several passes", 300000, 500000, true, true},
                                         {"no places", 0, 5}}) {
    check(s, Where::gpu);
  }
}

}  // namespace
}  // namespace ingot::backend::cuda
