// Facts of NVIDIA's GPUs and of CUDA, from the CUDA C++ Programming Guide (compute capabilities), cuda.h and data sheets. Nothing here is chosen.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ingot::backend::cuda::hardware {

inline constexpr size_t parameter_bytes = 4096;                // of a kernel, on any GPU: bytes
inline constexpr size_t tensor_map_bytes = 128;                // CUtensorMap: bytes
inline constexpr uint32_t shared_without_asking = 48 << 10;    // bytes of a block's shared memory that need no attribute of the function
inline constexpr int max_threads = 1024;                     // threads of a block
inline constexpr int warp = 32;                              // threads
inline constexpr int matrix_rows = 16;                       // rows of a result of a matrix instruction of a warp (m16n8k16)
inline constexpr int vector_bytes = 16;                      // bytes of the widest load of a thread
inline constexpr int shared_of_block = 96 << 10;             // bytes of shared memory that a block may have on every GPU from sm_80 on
inline constexpr int max_multiprocessors = 1 << 20;          // multiprocessors: more than any GPU has
inline constexpr uint32_t hopper_shared_of_block = 227 << 10;  // bytes of shared memory that a block may have on Hopper
inline constexpr uint32_t max_blocks_across = 65535;           // blocks along the second and the third axis of a grid
inline constexpr int64_t h200_multiprocessors = 132;           // multiprocessors of an H200, and of an H100 SXM

}  // namespace ingot::backend::cuda::hardware
