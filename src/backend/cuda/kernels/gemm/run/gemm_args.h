// A GEMM of half precision, or of float32 by TF32, with its epilogue, by ingot's own kernels on CUDA: what all implementations of a step share. Each has its own arguments besides.
//
// Operands: A (any tensor, read through a map), B [K, N] (contiguous along N or along K), then the body's loads and stores over [M, N] (and their gathered
// axes). Sizes: M, N, K, the extents of the map's indices (m.., k..), the offset along each axis of A (as in the CPU's "matmul" with a map), then the
// body's. N is a multiple of 8. M may be several axes of the body's operands, as the axes before the last two are of A without a map and of B, which repeats
// there. A prologue computes A, which has one row, in the kernel: its loads take A's place. With a gated epilogue B is [K, 2 N].
// B contiguous along K may be several operands, side by side along N. Of experts, B is [experts, K, N], and the ends of the experts' rows come after it.
#pragma once
#include <string>
#include <vector>

#include "backend/cuda/kernels/gemm/run/tuning.h"
#include "backend/cuda/kernels/run/axes.h"
#include "backend/cuda/kernels/run/numbers_args.h"
#include "ir/dtype.h"
#include "kernels/matmul/run/matmul_args.h"

// The parts of which kernels' parameters consist: each kernel has a structure of its own, in its folder. The parameters described in numbers_args.h follow, then those of the prologue, and each part's address
// and first column if B has several, or the experts.
// Of a walk, indices and guards are from outermost to innermost; missing ones come first and have extent 1. A guard is an axis of A that the map may leave.
#define INGOT_CUDA_GEMM \
  struct GemmExtents { \
    long m, n, k; \
  }; \
  struct GemmMatrices { \
    unsigned long a, b; \
    long base, b_step; /* the first element of A; from a row of B to the next, or from a column */ \
  }; \
  struct GemmShares { \
    unsigned long parts; /* the sums of each */ \
    int splits, turns; /* of K: the number of blocks that share it, and of tiles in each */ \
  }; \
  struct GemmWalk { \
    long m_step[4], k_step[4]; /* elements of A */ \
    int m_extent[4], k_extent[4]; \
    int k_inner; /* the innermost extent of K, rounded up to vectors of 16 bytes; GemmExtents::k counts with it. For aligned kernels its elements are adjacent and inside A */ \
    int m_guard[3][4], k_guard[3][4], origin[3], inside[3]; \
  }; \
  struct FinishParameters { \
    GemmExtents size; \
    GemmShares shares; \
  };

namespace ingot::kernels {

INGOT_CUDA_GEMM

struct GemmArgs {
  struct Operand {
    ir::DType dtype;
    uint8_t gathered = 0;  // index axes after the domain's
  };
  // An operand of the prologue, if there is one. All of its sizes are literals in the text.
  struct Source {
    ir::DType dtype;
    bool together;
    std::vector<int64_t> dims, strides;
  };
  // A kernel that can compute the step at some sizes, by RunKernel::name, with its own arguments.
  struct Implementation {
    std::string kernel;
    std::vector<std::byte> args;
  };
  std::string name;  // of the device kernels
  ir::DType type;  // of A: a half type, or f32, which is multiplied by TF32
  ir::DType b_type;  // of B: the same, or int8 for an encoded weight, contiguous along K
  GemmMap map;
  bool b_along_k = false;
  uint8_t stores = 1;
  uint8_t row_rank = 1;  // axes of the body's rows
  std::vector<uint8_t> merged;  // operands whose rows of several axes have one stride
  uint32_t sizes = 0;  // of the body
  std::vector<Operand> operands;  // of the body; numbers count operands and sizes from the body's first
  std::vector<CudaNumber> numbers;
  std::vector<CudaKnown> known;
  std::vector<uint8_t> together;  // operands that the kernels for aligned addresses access in vectors of eight
  std::vector<Source> sources;
  int64_t row = 0;  // length of the prologue's row
  uint8_t parts_of_b = 1;  // number of B's operands, side by side along N
  bool gated = false;  // gated epilogue: the body has half of B's columns and reads both halves (silu(gate) * up)
  std::vector<Implementation> implementations;  // one, or several among which sizes decide
  // True if there are more indices than an image's rows (n, h, w) and K (h, w, c) have.
  bool is_volume() const { return map.m_rank > 3 || map.k_rank > 3; }
  bool is_matrix() const { return map.m_rank == 1 && map.k_rank == 1 && map.rank == 2; }
  bool has_prologue() const { return !sources.empty(); }
  int64_t together_of_a() const { return 16 / static_cast<int64_t>(ir::size_of(type)); }  // elements that are read at once
  int64_t b_together() const { return 16 / static_cast<int64_t>(ir::size_of(b_type)); }
  size_t left() const { return has_prologue() ? sources.size() : 1; }  // number of operands before B
  size_t b_end() const { return left() + parts_of_b; }  // index of the row ends of experts, if there are any, else of the body's first operand
};
std::vector<std::byte> serialise(const GemmArgs&);
// Checks every index, and of the implementations nothing. Error (format).
GemmArgs parse_gemm_cuda(std::span<const std::byte>);
// Error (format) unless `good`.
void require_gemm_args(bool good, const char* what);

// Bytes of a stage, for A and B. The results of the groups replace them at the end. Columns are in boxes of 64.
#define INGOT_CUDA_GEMM_STAGE \
  constexpr int gemm_stage_bytes(int rows, int columns) { return (rows + (columns + 63) / 64 * 64) * 128; }
INGOT_CUDA_GEMM_STAGE
inline constexpr int gemm_row_bytes = gemm::tuning::row_bytes, gemm_stages = gemm::tuning::stages;
inline constexpr int gemm_finish_threads = gemm::tuning::finish_threads, gemv_threads = gemm::tuning::row_threads;

// The matrix instructions of groups of warps read floats only along K.
inline bool has_tiles_of(ir::DType type, bool b_along_k) { return type != ir::DType::f32 || b_along_k; }
// Elements of K in a row of a tile.
inline int64_t depth_of(const GemmArgs& args) { return gemm_row_bytes / static_cast<int64_t>(ir::size_of(args.type)); }

}  // namespace ingot::kernels
