// Updates that are added by atomic operations, on the host and, where there is one, on a GPU, against double: rows in whole vectors and others, elements along an axis, half types.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cuda/available_test.h"
#include "backend/cuda/compile/emulated_test.h"
#include "backend/cuda/kernels/scatter/scatter.h"
#include "backend/cuda/kernels/scatter_atomics/run/scatter_atomics_launches.h"
#include "backend/cuda/kernels/scatter_atomics/scatter_atomics.h"
#include "kernels/scatter/run/scatter_checks.h"

namespace ingot::backend::cuda {
namespace {

using ir::DType;

// out [rows, columns], to which rows, or (`along`) elements of rows, are added by an index along the rows.
struct Site {
  std::string name;
  DType type;
  int64_t rows, columns, updates;
  bool along = false, shifted = false;
};

void check(const Site& s, Where where) {
  SCOPED_TRACE(s.name);
  HostTensor index(DType::i64, s.along ? std::vector<int64_t>{s.updates, s.columns} : std::vector<int64_t>{s.updates});
  HostTensor updates(s.type, {s.updates, s.columns}), out(s.type, {s.rows, s.columns});
  std::mt19937 random(3);
  for (size_t e = 0; e < index.elements(); ++e) index.set(e, static_cast<double>(random() % static_cast<uint64_t>(s.rows)));
  updates.fill(5, true);
  out.fill(6, true);
  std::vector<double> want, size, count(out.elements(), 1);
  for (size_t e = 0; e < out.elements(); ++e) want.push_back(out.get(e)), size.push_back(std::fabs(out.get(e)));
  for (size_t e = 0; e < updates.elements(); ++e) {
    const size_t row = e / static_cast<size_t>(s.columns),
                 to = static_cast<size_t>(index.get(s.along ? e : row)) * static_cast<size_t>(s.columns) + e % static_cast<size_t>(s.columns);
    want[to] += updates.get(e), size[to] += std::fabs(updates.get(e)), count[to] += 1;
  }
  const kernels::ScatterArgs args{kernels::ScatterArgs::Kind::add, false, 0, {0}};
  const kernels::CudaPart part = kernels::scatter_atomics_cuda_part(args, s.type);
  const std::string text = std::string(kernels::axes_cuda_text()) + std::string(kernels::elements_cuda_text()) + std::string(kernels::scatter_at_once_cuda_text()) +
                           std::string(kernels::scatter_atomics_cuda_text()) + part.text;
  std::vector<HostTensor*> tensors{&updates, &index, &out};
  if (s.along) std::swap(tensors[0], tensors[1]);
  run_printed({{s.along ? "scatter_along_atomics" : "scatter_atomics", kernels::serialise(args), {}},
               part.name,
               text,
               part.kernels,
               s.along ? kernels::load_scatter_along : kernels::load_scatter,
               s.along ? kernels::scatter_along_atomics_cuda_launches : kernels::scatter_atomics_cuda_launches},
              tensors, {}, where, s.shifted ? 1 : 0, 2);
  const double eps = s.type == DType::f64 ? 1.2e-16 : s.type == DType::f32 ? 6e-8 : s.type == DType::f16 ? 4.9e-4 : 3.9e-3;
  for (size_t e = 0; e < want.size(); ++e) ASSERT_LE(std::fabs(out.get(e) - want[e]), eps * count[e] * size[e]) << "element " << e << ", to which " << count[e] << " are added";
}

std::vector<Site> sites() {
  return {{"rows in vectors", DType::f32, 50, 40, 300},
          {"rows at odd addresses", DType::f32, 50, 40, 300, false, true},
          {"rows of no vectors", DType::f32, 50, 7, 300},
          {"halves in vectors", DType::f16, 50, 40, 300},
          {"halves of 8 bits, alone", DType::bf16, 50, 9, 300},
          {"elements along an axis", DType::f32, 50, 40, 300, true},
          {"halves along an axis", DType::f16, 50, 40, 300, true},
          {"doubles", DType::f64, 50, 40, 300}};
}

TEST(cuda_scatter_atomics_emulated, add) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Site& s : sites()) {
    check(s, Where::early);
    if (HasFatalFailure()) return;
  }
}

TEST(cuda_scatter_atomics, add) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Site& s : sites()) check(s, Where::gpu);
}

}  // namespace
}  // namespace ingot::backend::cuda
