// A product that reads its left operand through a map (a convolution), on CUDA: the step's arguments, and what its kernels take.
//
// "matmul_map": operands = A (any tensor), B [K, N] row-major, then the bias (along N alone) and the residual (as D) in any order where there are such,
// then D [M, N] row-major (written). sizes = M, N, K, the extents of the map's indices (m.., k..), the offset along each axis of A: as "matmul" with a map
// has them. The innermost index of K walks neighbours, in eights; N is a multiple of 8.
#pragma once
#include <string>

#include "ir/dtype.h"
#include "kernels/axes_cuda_args.h"
#include "kernels/matmul/matmul_args.h"
#include "kernels/matmul/matmul_cuda_args.h"

// Indices and guards from outermost to innermost, missing ones in front of extent 1. A guard is an axis of A that the map may leave.
#define INGOT_CUDA_MATMUL_MAP                                                                \
  struct MatmulMapCudaParameters {                                                           \
    unsigned long a, b, bias, residual, out, parts;                                          \
    long m, n, k, b_row, residual_row, out_row;                                              \
    long base, m_step[3], k_step[3]; /* elements of A */                                     \
    int m_extent[3], k_extent[3];                                                            \
    int m_guard[2][3], k_guard[2][3], origin[2], inside[2];                                  \
    int splits, turns; /* of K: how many blocks share it, how many tiles each goes through */ \
    int activation;                                                                          \
    float alpha;                                                                             \
  };

namespace ingot::kernels {

INGOT_CUDA_MATMUL_MAP

struct MatmulMapCudaArgs {
  MatmulCudaArgs product;   // batch_rank 0
  MatmulMap map;
};
std::vector<std::byte> serialise(const MatmulMapCudaArgs&);
// Error (format) when the bytes are not such arguments.
MatmulMapCudaArgs parse_matmul_map_cuda(std::span<const std::byte>);

// Tiles of D: large ones, and small ones where there would be few.
struct MatmulMapTile {
  int rows, columns, threads;
};
inline constexpr MatmulMapTile matmul_map_tiles[] = {{128, 128, 256}, {64, 64, 128}};
inline constexpr int matmul_map_depth = 32, matmul_map_stages = 4;  // of K in shared memory at once; how many such
inline constexpr int matmul_map_finish_threads = 256;

// Kernels: name_0 and name_1 for the tiles, name_2 and name_3 for A and B at any address, name_finish adds up what several blocks made.
std::string matmul_map_cuda_name(ir::DType);

}  // namespace ingot::kernels
