// Products of matrices by cuBLASLt, found at run time. In its words: matrices are column-major, D = activation(alpha op(A) op(B) + beta C + bias).
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/cuda/device.h"
#include "ir/dtype.h"

namespace ingot::backend::cuda {

struct Problem {
  enum Activation : int32_t { none, relu, gelu_tanh };
  // op(X) of rows x columns: as it lies with `leading` elements between columns, or transposed.
  struct Matrix {
    int64_t rows = 0, columns = 0, leading = 1, batch = 0;  // batch: elements from one to the next
    int64_t transposed = 0;
    auto operator<=>(const Matrix&) const = default;
  };
  Matrix a, b, c, d;
  int64_t batches = 1;
  int64_t alignment = 16;  // of all pointers, at least
  int32_t in = 0, out = 0; // ir::DType of A and B, of C and D
  int32_t activation = none, bias = 0, residual = 0, tf32 = 0;
  auto operator<=>(const Problem&) const = default;
};

class Products;

// Error (device) when cuBLASLt is missing.
void need_cublaslt();

// A problem with the algorithm for it. One caller at a time.
class Product {
 public:
  Product(const Products&, const Problem&);
  ~Product();
  Product(const Product&) = delete;
  size_t workspace() const { return workspace_; }
  // `c` and `bias` are read when the problem says so.
  void run(double alpha, double beta, Address a, Address b, Address c, Address d, Address bias, Address workspace, StreamHandle stream);

 private:
  friend class Products;
  const Products& products_;
  bool wide_;  // scaled by doubles
  void *description_ = nullptr, *a_ = nullptr, *b_ = nullptr, *c_ = nullptr, *d_ = nullptr;
  uint64_t algorithm_[8] = {};
  size_t workspace_ = 0;
};

// One for a device, shared by threads.
class Products {
 public:
  // Error (device) when cuBLASLt is missing.
  explicit Products(DevicePtr device);
  ~Products();
  const DevicePtr& device() const { return device_; }

 private:
  friend class Product;
  struct Choice {
    uint64_t algorithm[8];
    size_t workspace;
  };
  // Asks the library once for a problem. Error (unsupported) when it has nothing.
  Choice choose(const Problem&, const Product&) const;

  DevicePtr device_;
  void* handle_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::map<Problem, Choice> known_;
};

}  // namespace ingot::backend::cuda
