// GEMM by cuBLASLt, which is found at run time. In its terms matrices are column-major, and D = activation(alpha op(A) op(B) + beta C + bias).
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/run/device.h"
#include "backend/cuda/run/tuning.h"
#include "base/timing.h"
#include "ir/dtype.h"
#include "kernels/run/kernel.h"

namespace ingot::backend::cuda {

using kernels::Tunable;

struct Problem {
  enum Activation : int32_t { none, relu, gelu_tanh };
  // op(X) has rows x columns elements; X is stored in columns with stride `leading`, or transposed.
  struct Matrix {
    int64_t rows = 0, columns = 0, leading = 1, batch = 0;  // batch: elements from one matrix to the next
    int64_t transposed = 0;
    auto operator<=>(const Matrix&) const = default;
  };
  Matrix a, b, c, d;
  int64_t batches = 1;
  int64_t alignment = 16;  // of all pointers, at least
  int32_t in = 0, out = 0; // ir::DType of A and B; of C and D
  int32_t activation = none, bias = 0, residual = 0, tf32 = 0;
  int64_t workspace = gpu_tuning::workspace_bytes;  // bytes, at most
  auto operator<=>(const Problem&) const = default;
  std::string text() const;  // all fields
};

class Products;

// Error (device) if cuBLASLt is missing.
void need_cublaslt();

// An algorithm of the library, as an opaque value.
struct Algorithm {
  uint64_t bytes[8] = {};
  size_t workspace = 0;
};

// A problem and the algorithm for it. For one caller at a time.
class Product {
 public:
  // `trial`: see Call::trial.
  Product(const Products&, const Problem&, const Timing* trial = nullptr);
  ~Product();
  Product(const Product&) = delete;
  size_t workspace() const { return algorithm_.workspace; }
  // `c` and `bias` are read only if the problem has a residual or a bias.
  void run(double alpha, double beta, Address a, Address b, Address c, Address d, Address bias, Address workspace, StreamHandle stream);

 private:
  friend class Products;
  const Products& products_;
  bool wide_;  // alpha and beta are doubles
  void *description_ = nullptr, *a_ = nullptr, *b_ = nullptr, *c_ = nullptr, *d_ = nullptr;
  Algorithm algorithm_;
};

// The GEMMs of a device. Threads share it.
class Products {
 public:
  // Error (device) if cuBLASLt is missing. `timings`: those of this machine() choose the algorithm of a problem.
  Products(DevicePtr device, std::span<const Timing> timings);
  ~Products();
  const DevicePtr& device() const { return device_; }
  const std::string& machine() const { return machine_; }
  // The library's algorithms for the problem, in its order of preference.
  Tunable tunable(const Problem&, const Product&) const;

 private:
  friend class Product;
  // The algorithm to use. Asks the library once per problem, and each time for a trial. Error (unsupported) if the library has none.
  Algorithm choose(const Problem&, const Product&, const Timing* trial) const;
  // Asks the library for up to `most` algorithms, in its order of preference. Error (unsupported) if it has none.
  std::vector<Algorithm> ask(const Problem&, const Product&, size_t max_count) const;

  DevicePtr device_;
  void* handle_ = nullptr;
  std::string machine_;
  std::map<std::string, size_t, std::less<>> ranks_;  // of the fastest algorithm, by the problem's text
  mutable std::mutex mutex_;
  mutable std::map<Problem, Algorithm> known_;
};

}  // namespace ingot::backend::cuda
