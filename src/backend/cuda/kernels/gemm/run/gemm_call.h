// A step's call as every implementation of a GEMM sees it, and the launches that it makes of it.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/kernels/gemm/run/gemm_args.h"
#include "backend/cuda/kernels/run/numbers.h"

namespace ingot::kernels {

struct GemmCall {
  // Checks that the arguments and the operands agree. Error (format).
  GemmCall(const GemmArgs&, const Call&, const CudaMachine&);

  const GemmArgs& args;
  const Call& call;
  const CudaMachine& machine;
  size_t first;  // index of the body's first operand
  CudaNumbers numbers, sources;
  GemmParameters p{};  // the map as the kernels iterate over it, and B
  bool k_in_vectors;     // the innermost index of K consists of whole vectors of 16 bytes of adjacent elements, all of them inside A
  bool a_aligned, b_aligned,
      others_aligned;  // by strides: vectors of A, of B, and eight elements of the operands that the epilogue accesses in vectors are at multiples of 16 bytes
  std::vector<size_t> in_vectors;  // the operands that the prologue and the epilogue access in vectors

  bool has_experts() const { return first > args.b_end(); }
  bool is_empty() const { return p.m == 0 || p.n == 0; }
  // True if K is one index of whole vectors.
  bool has_one_k() const;
  // The operands that must be aligned for kernels that access these in vectors.
  std::vector<size_t> aligned(bool with_a, bool with_b) const;
  // Everything on which times depend. The name is a hash of the epilogue's text.
  std::string problem() const;
};

class GemmLaunches {
 public:
  // What a kernel's parameters have after those of all.
  using Append = std::function<void(std::vector<std::byte>& parameters, std::vector<CudaLaunch::Pointer>& pointers)>;

  // `prefix`: of the kernels' names.
  explicit GemmLaunches(const GemmCall&, std::string_view prefix = "");
  // A launch that overlaps with the end of the one before.
  CudaLaunch& add(std::string_view kernel, int64_t blocks, int threads, int shared, const Append& = {});
  // `splits` blocks share the `turns` steps along K of a tile, and finish() adds up their sums.
  void share_k(int64_t turns, int64_t splits);
  void finish();
  // Blocks that stay for all their tiles, of which `sides` are side by side along N. `Shape` has blocks(), threads() and shared().
  template <class Shape>
  void add_persistent(std::string_view kernel, const Shape& s, int64_t tiles, int64_t sides) {
    const int64_t room = std::max<int64_t>(1, int64_t{s.blocks()} * call_.machine.multiprocessors / sides);
    add(kernel, std::min(tiles, room) * sides, s.threads(), s.shared()).work_tiles = static_cast<uint32_t>(std::min<int64_t>(tiles * sides, INT32_MAX));
  }

  GemmParameters p;
  std::vector<CudaLaunch::Pointer> pointers;
  CudaLaunches list;

 private:
  const GemmCall& call_;
  std::string_view prefix_;
};

}  // namespace ingot::kernels
