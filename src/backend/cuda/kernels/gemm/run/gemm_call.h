// A step's call as every implementation of a GEMM sees it, and the launches that it makes of it.
#pragma once
#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
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
  bool packed;   // B has one axis, in an order of its own
  CudaNumbers numbers, sources;
  GemmExtents size{};
  GemmMatrices matrices{};   // without addresses
  GemmWalk walk{};     // the map as the kernels iterate over it
  bool k_in_vectors;     // the innermost index of K consists of whole vectors of 16 bytes of adjacent elements, all of them inside A
  bool a_aligned, b_aligned,
      others_aligned;  // by strides: vectors of A, of B, and eight elements of the operands that the epilogue accesses in vectors are at multiples of 16 bytes
  std::vector<size_t> in_vectors;  // the operands that the prologue and the epilogue access in vectors

  bool has_experts() const { return first > args.b_end(); }
  bool is_empty() const { return size.m == 0 || size.n == 0; }
  // Of a part of B, among the columns of all parts.
  int64_t first_column(size_t part) const;
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
  // A launch that overlaps with the end of the one before. The addresses of A, B and the parts of K are patched in.
  template <class P>
  CudaLaunch& add(std::string_view kernel, const P& p, int64_t blocks, int threads, int shared, const Append& append = {}) {
    Parameters bytes{std::as_bytes(std::span(&p, 1)), alignof(P)};
    if constexpr (requires { p.matrices; }) bytes.matrices = offsetof(P, matrices);
    if constexpr (requires { p.shares; }) {
      if (p.shares.splits > 1) bytes.shares = offsetof(P, shares);
    }
    return add_bytes(kernel, bytes, blocks, threads, shared, append);
  }
  // `splits` blocks share the `turns` steps along K of a tile, and finish() adds up their sums.
  GemmShares share_k(int64_t turns, int64_t splits);
  void finish(const GemmShares&);
  // Blocks that stay for all their tiles, of which `sides` are side by side along N. `Shape` has blocks(), threads() and shared().
  template <class P, class Shape>
  void add_persistent(std::string_view kernel, const P& p, const Shape& s, int64_t tiles, int64_t sides) {
    const int64_t room = std::max<int64_t>(1, int64_t{s.blocks()} * call_.machine.multiprocessors / sides);
    add(kernel, p, std::min(tiles, room) * sides, s.threads(), s.shared()).work_tiles = static_cast<uint32_t>(std::min<int64_t>(tiles * sides, INT32_MAX));
  }

  CudaLaunches list;

 private:
  // A kernel's own parameters, and where the matrices and the shares are in them.
  struct Parameters {
    std::span<const std::byte> bytes;
    size_t alignment;
    std::optional<size_t> matrices = std::nullopt, shares = std::nullopt;
  };
  void append_parts_of_b(std::vector<std::byte>& parameters, std::vector<CudaLaunch::Pointer>& pointers) const;
  CudaLaunch& add_bytes(std::string_view kernel, const Parameters&, int64_t blocks, int threads, int shared, const Append&);

  const GemmCall& call_;
  std::string_view prefix_;
  size_t parts_ = 0;  // in the scratch
};

}  // namespace ingot::kernels
