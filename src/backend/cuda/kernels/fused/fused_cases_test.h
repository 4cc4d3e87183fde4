// Fused bodies with data, for tests: the same cases are compiled without a GPU and, with one, run and compared with the CPU.
#pragma once
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/compile/body_builder_test.h"
#include "backend/cuda/compile/fused_text.h"
#include "backend/cuda/compile/nvrtc.h"
#include "backend/cuda/kernels/fused/run/fused_launches.h"
#include "backend/cuda/run/device.h"

namespace ingot::backend::cuda {

// A strided tensor in host memory.
struct HostTensor {
  ir::DType dtype;
  std::vector<int64_t> dims, strides;
  int64_t offset = 0;                 // of element 0, in elements
  std::vector<std::byte> bytes;
  std::vector<size_t> order;          // axes from outermost to innermost in memory
  int64_t gap = 1;                    // between elements

  HostTensor(ir::DType t, std::vector<int64_t> d, std::vector<size_t> axes = {}, int64_t step = 1);
  void fill(uint32_t seed, bool small = false);
  void set(size_t element, double v);
  double get(size_t element) const;
  size_t elements() const { return bytes.size() / ir::size_of(dtype); }
};

struct Case {
  std::string name;
  FusedBody body;
  std::vector<HostTensor> tensors;    // loads, then stores
  bool symbolic = false;              // sizes are known at run time only
  uint64_t status = 0;                // the kernel's expected status; if not 0, results are not compared
  Tuning tuning;

  std::vector<int64_t> domain() const;
  // Body and layouts as compile makes them; symbols() are the values of their symbols.
  FusedBody emitted_body() const;
  std::vector<StridedLayout> layouts() const;
  std::vector<int64_t> symbols() const { return domain(); }
};

std::vector<Case> primitive_cases();
std::vector<Case> shape_cases();
// Operands that lie in other orders than the domain, along axes that are long enough for tiles.
std::vector<Case> transposed_cases();
// All: every length. Otherwise one for each kind of row, which is enough to compile.
std::vector<Case> row_cases(bool all);

// Bodies that are timed, over [rows, columns].
Case activation_case(ir::DType, int64_t rows, int64_t columns);   // gelu(x + b) * y + r
Case softmax_case(ir::DType, int64_t rows, int64_t columns);
Case layer_norm_case(ir::DType, int64_t rows, int64_t columns, bool residual);
Case row_sum_case(ir::DType, int64_t rows, int64_t columns);  // of open sizes
// Norms of [images, rows, columns] with a factor for each image. The operand has this order of axes.
Case scaled_norm_case(ir::DType, std::vector<int64_t> dims, std::vector<size_t> order);

// Kernels of many bodies, compiled in few calls, loaded on a device.
class CompiledCases {
 public:
  explicit CompiledCases(const std::vector<Case>& cases, size_t in_one_source = 24);
  // Everything for one architecture; the number of bytes.
  size_t compile_for(int sm, CompileJob::Form form, const std::string& cache = {});
  void load(const DevicePtr& device);
  const Emitted& emitted(size_t k) const { return emitted_[k]; }
  Function function(size_t k, uint32_t variant) const;
  std::string all_text() const;

 private:
  std::vector<Emitted> emitted_;
  std::vector<size_t> source_of_;     // case -> source
  std::vector<std::string> sources_;
  std::vector<std::vector<std::byte>> code_;
  std::vector<std::unique_ptr<Module>> modules_;
};

// A case in device memory, ready to be launched.
class DeviceCase {
 public:
  // `shifted`: every tensor starts one element after an aligned address.
  // `only_wide`: kernels with 32-bit indices are skipped.
  DeviceCase(const Case&, const Emitted&, const DevicePtr&, bool shifted, bool only_wide = false);
  const kernels::FusedLaunch::Grid& grid();
  void launch(const CompiledCases&, size_t k, StreamHandle);
  std::vector<std::byte> read(size_t tensor) const;
  uint64_t status() const;

 private:
  const Case& case_;
  kernels::FusedCudaArgs args_;
  kernels::FusedLaunch launch_;
  std::vector<DeviceMemory> memory_;
  std::vector<size_t> start_;
  std::vector<TensorRef> refs_;
  DeviceMemory status_;
};

}  // namespace ingot::backend::cuda
