// Where fused bodies take what matrix instructions or a launch of its own would compute otherwise. H100 and H200, `ingot bench --steps` (docs/performance-notes/gemms_cuda.md: squeeze-and-excitation of
// EfficientNet); the bounds are estimates.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ingot::kernels::fused_cuda_tuning {

// GEMMs of so few elements that launches take most of their time: rows usually and at most, products, terms or columns of the narrower side.
inline constexpr int64_t small_rows = 64, max_small_rows = 512, small_products = int64_t{1} << 21, narrow = 64;
// Bytes of rows that are reduced together with others in one launch: of more, a launch saved, about 2 of 13 microseconds on an H100, does not count.
inline constexpr double joined_bytes = 32 << 20;

// Bytes of static shared memory of kernels that ask for more when they are launched: what their reductions need, so that all the rest is a row's.
inline constexpr size_t static_shared = 4096;
// Elements of a tile's edge, a warp's threads; of the shortest axis that is transposed in tiles: half of an edge.
inline constexpr int64_t tile = 32, min_transposed_extent = 16;

}  // namespace ingot::kernels::fused_cuda_tuning
