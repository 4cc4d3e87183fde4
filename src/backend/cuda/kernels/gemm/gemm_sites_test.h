// GEMMs and convolutions for tests of ingot's own GEMM kernels: operands of every layout, map and type.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/kernels/fused/fused_cases_test.h"
#include "backend/cuda/kernels/gemm/gemm.h"
#include "backend/cuda/kernels/gemm/packed/run/packed_args.h"
#include "backend/cuda/kernels/gemm/run/gemm_args.h"
#include "ir/graph.h"

namespace ingot::backend::cuda {

// The element at these coordinates; 0 outside.
double at(const HostTensor&, const std::vector<int64_t>& where);
// The layout of a tensor whose sizes are known.
StridedLayout layout_of(const HostTensor&);

// A prologue that computes A, one row: none; silu(x) * y * w; or x / sqrt(mean of squares), rounded, times w.
enum class Prologue : uint8_t { none, gate, norm };

struct GemmCase {
  std::string name;
  ir::DType type = ir::DType::f16;
  HostTensor a, b;
  std::optional<ir::AffineMap> map = std::nullopt;
  size_t m_rank = 1;
  int64_t m, n, k;
  bool infinity = false;        // A has an infinite element. Windows without it are finite
  bool shifted = false;         // operands have odd addresses
  int multiprocessors = 1;      // with many, tiles are small and blocks share K
  uint16_t tiles = all_tiles;
  Prologue prologue = Prologue::none;
  bool gated = false;           // gated epilogue
  std::vector<int64_t> parts_of_b = {};  // columns of each part of B; empty: B is one matrix
  bool encoded = false;         // B is int8
  std::optional<kernels::PackedB> packed = std::nullopt;  // B is packed so
  std::vector<int64_t> rows = {};    // axes of rows that do not merge in the body's operands; all but the last one are batches. Empty: one axis
  bool merged = false;          // two such axes, the inner one of one row, which do merge: the inner one's stride is the outer one's
  int64_t gap = 0;              // rows of A after those of each batch that are not read

  // An element of A or B as it is multiplied: floats are rounded to TF32.
  double multiplied(double x) const;
  // The element of A in this row and column of the GEMM, read through the map.
  double left(int64_t row, int64_t column) const;
};

GemmCase plain(int64_t m, int64_t n, int64_t k, bool along_k, ir::DType type = ir::DType::f16);
// [n, h, w, c] with windows of r x r: rows (n, y, x), K (r, r, c).
GemmCase convolution(int64_t h, int64_t w, int64_t c, int64_t r, int64_t stride, int64_t pad, int64_t n, bool along_k, ir::DType type = ir::DType::f16);
// [batch, c, h, w] with windows of r x s, K (c, r, s), in any layout: the kernels for few channels.
struct FewChannels {
  int64_t batch, h, w, c, r, s, stride, pad, n;
  bool channels_last, along_k;
  ir::DType type = ir::DType::f16;
};
GemmCase few_channels(const FewChannels&);

// Half precision: matrices, convolutions, one row, first layers.
std::vector<GemmCase> half_cases();
// Two to eight rows: sizes of K, types, a gated epilogue, rows of two axes, B in parts.
std::vector<GemmCase> skinny_cases();
// More rows than eight, B in parts: tiles begin with a part or not, a gated epilogue.
std::vector<GemmCase> parts_cases();
// Floats by TF32: a vector of 16 bytes has four, a tile is 32 deep along K.
std::vector<GemmCase> float_cases();
// B is int8: tiles, K shared by blocks, one row, a prologue, a gated epilogue.
std::vector<GemmCase> encoded_cases();
// B is packed: 4 bits in groups and 8 bits; one row, a few, many; floats; a prologue, a gated epilogue.
std::vector<GemmCase> packed_cases();
// Volumes of few channels and stride 1: channels that do and do not fill vectors, windows and padding of any size, several patches for a block.
std::vector<GemmCase> volume_cases();
// Rows of several axes in the body: matrices and images, by every kind of kernel.
std::vector<GemmCase> row_axes_cases();
// Volumes and lines: tiles of the copying unit, tiles of warps, odd channels and addresses, K shared by blocks.
std::vector<GemmCase> other_rank_cases();

}  // namespace ingot::backend::cuda
