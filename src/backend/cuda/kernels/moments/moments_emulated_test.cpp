// Moments on the host and, where there is one, on a GPU: groups of columns, rows, odd addresses, numbers far from zero; against double.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cuda/available_test.h"
#include "backend/cuda/compile/emulated_test.h"
#include "backend/cuda/kernels/moments/moments.h"
#include "backend/cuda/kernels/moments/run/moments_launches.h"
#include "kernels/moments/run/moments_args.h"

namespace ingot::backend::cuda {
namespace {

using ir::DType;

struct Site {
  std::string name;
  DType type;
  std::vector<int64_t> dims;
  std::vector<uint8_t> reduced;
  std::vector<size_t> order = {};  // of the axes in memory
  double around = 0;
  bool shifted = false;
};

void check(const Site& s, Where where) {
  SCOPED_TRACE(fmt::format("{}, way {}", s.name, static_cast<int>(where)));
  HostTensor in(s.type, s.dims, s.order);
  in.fill(7, true);
  for (size_t e = 0; s.around != 0 && e < in.elements(); ++e) in.set(e, in.get(e) + s.around);
  std::vector<int64_t> kept;
  for (size_t d = 0; d < s.dims.size(); ++d) {
    if (s.reduced[d] == 0) kept.push_back(s.dims[d]);
  }
  HostTensor sums(DType::f32, kept), squares(DType::f32, kept);
  const std::vector<kernels::CudaPart> parts = kernels::moments_cuda_parts(s.type);
  std::string text = std::string(kernels::axes_cuda_text()) + std::string(kernels::moments_cuda_text());
  std::vector<std::string> names;
  for (const kernels::CudaPart& part : parts) {
    text += part.text;
    names.insert(names.end(), part.kernels.begin(), part.kernels.end());
  }
  run_printed({{"moments", kernels::serialise(kernels::MomentsArgs{s.reduced}), {}}, parts[0].name, text, names, kernels::load_moments, kernels::moments_cuda_launches},
              {&in, &sums, &squares}, {}, where, s.shifted ? 1 : 0, 4);
  // Every row by itself.
  std::vector<int64_t> at(s.dims.size(), 0);
  for (size_t row = 0; row < sums.elements(); ++row) {
    size_t rest = row;
    for (size_t d = s.dims.size(); d-- > 0;) {
      at[d] = 0;
      if (s.reduced[d] != 0) continue;
      at[d] = static_cast<int64_t>(rest) % s.dims[d];
      rest /= static_cast<size_t>(s.dims[d]);
    }
    std::vector<double> all;
    for (bool more = true; more;) {
      int64_t place = 0;
      for (size_t d = 0; d < at.size(); ++d) place += at[d] * in.strides[d];
      all.push_back(in.get(static_cast<size_t>(place)));
      more = false;
      for (size_t d = s.dims.size(); d-- > 0 && !more;) {
        if (s.reduced[d] == 0) continue;
        more = ++at[d] < s.dims[d];
        if (!more) at[d] = 0;
      }
    }
    double sum = 0, want = 0, size = 0;
    for (double x : all) sum += x, size += std::abs(x);
    for (double x : all) want += (x - sum / static_cast<double>(all.size())) * (x - sum / static_cast<double>(all.size()));
    ASSERT_NEAR(sums.get(row), sum, 2e-6 * size) << "row " << row;
    ASSERT_NEAR(squares.get(row), want, 2e-5 * want) << "row " << row;
  }
}

std::vector<Site> sites() {
  Site ten{"groups of 10 columns", DType::f16, {2, 70, 7, 10}, {0, 1, 0, 1}}, odd = ten, far = ten;
  odd.name += ", odd addresses", odd.shifted = true;
  far.name += ", far from zero", far.around = 100;
  return {ten,
          odd,
          far,
          {"groups of 8 columns", DType::bf16, {1, 333, 40, 8}, {0, 1, 0, 1}},
          {"groups of 4 columns", DType::f32, {3, 200, 5, 4}, {0, 1, 0, 1}},
          {"groups of 3 columns", DType::f32, {1, 129, 11, 3}, {0, 1, 0, 1}},
          {"columns alone", DType::f16, {2, 300, 33}, {0, 1, 0}},
          {"two axes of places that are one", DType::f16, {2, 9, 30, 4, 6}, {0, 1, 1, 0, 1}},
          {"rows", DType::f32, {3, 5, 4000}, {0, 0, 1}, {}, 1000},
          {"rows of two axes that lie otherwise", DType::f16, {2, 40, 3, 50}, {0, 1, 0, 1}, {2, 0, 1, 3}},
          {"all", DType::f32, {5000}, {1}}};
}

TEST(cuda_moments_emulated, equal_double) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Site& s : sites()) {
    check(s, Where::early);
    if (HasFatalFailure()) return;
  }
}

TEST(cuda_moments, equal_double) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  for (Site s : sites()) check(s, Where::gpu);
  check({"an image of 512 x 512 by 128 channels", DType::f16, {1, 262144, 32, 4}, {0, 1, 0, 1}}, Where::gpu);
  check({"an image of 512 x 512, channels first", DType::f16, {1, 4, 1 << 20}, {0, 0, 1}}, Where::gpu);
}

}  // namespace
}  // namespace ingot::backend::cuda
