// Which shape of attention's kernel computes rows of known lengths. H100 and H200, `INGOT_MEASURE=1 test_backend_cuda --gtest_filter=cuda_attention.speed` (docs/performance-notes/attention.md: 0034, 0077, 0090).
#pragma once
#include <cstddef>
#include <cstdint>

namespace ingot::kernels::attention_cuda_tuning {

// Elements of heads up to which a shape serves, and of the only wider heads, for which there are matrix instructions of as many columns.
inline constexpr uint16_t narrow_head = 48, usual_head = 64, middle_head = 96, wide_head = 128;
inline constexpr int64_t wider_heads[] = {160, 192, 256};
// Rows of queries from which shapes go by the size of heads; from which heads of 56 and 64 are copied as TMA boxes.
inline constexpr int64_t long_queries = 512, very_long_queries = 1088;
// Rows of keys that one iteration computes (77 of a text), and from which the loop over keys is worth TMA boxes.
inline constexpr int64_t one_iteration = 80, min_boxed_keys = 256;

// Queries that are so few that blocks take parts of the keys: at most those of one block. Keys of a part, at least; parts of a head, at most: the threads of a warp; blocks for each of an H200's
// multiprocessors (docs/performance-notes/attention.md, one token of a language model; the bounds are estimates).
inline constexpr int64_t few_queries = 16, min_keys_of_part = 64, max_parts = 32, blocks_of_multiprocessor = 4;
// Threads of a block that joins parts.
inline constexpr int join_threads = 128;
// Bytes of a block's shared memory, for keys, values and a mask that adds one number for each key: of more keys the mask is read for each score instead. An estimate.
inline constexpr int64_t max_shared = 160 << 10;
// Axes of heads in a tensor map, as well as rows and columns; elements of the widest head that is copied as TMA boxes: bounds of the kernels that are printed.
inline constexpr uint8_t max_box_axes = 2;
inline constexpr uint16_t max_boxed_head = 128;
// Axes of the operands: a bound of a plan.
inline constexpr size_t max_rank = 20;

}  // namespace ingot::kernels::attention_cuda_tuning
