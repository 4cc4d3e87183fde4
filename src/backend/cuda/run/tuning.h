// The numbers of the CUDA runtime. H100 and H200; where a line names no measurement it is an estimate.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ingot::backend::cuda::gpu_tuning {

// Blocks of each multiprocessor up to which a kernel starts while the one before ends: with more, the waiting blocks take room from it, and nothing is gained. H200, ResNet-50 at batch 32,
// `python bench/cuda.py`: 1.68 ms with overlap of all, 1.62 without.
inline constexpr uint32_t max_overlapped_waves = 4;

// Bytes of cuBLASLt's workspace, what NVIDIA recommends for Hopper; algorithms of a GEMM that are asked for when they are timed; GEMMs whose algorithm is remembered before all are forgotten. Bounds of
// memory and of time: more algorithms are seldom found, and a GEMM is asked for once a plan.
inline constexpr int64_t workspace_bytes = int64_t{32} << 20;
inline constexpr size_t timed_algorithms = 8;
inline constexpr size_t max_known_problems = 4096;

// Bytes of the driver's log of a module: a bound of memory.
inline constexpr size_t log_bytes = 4096;

// Status rows of streams: freed ones that rest before one is used again, so that kernels of destroyed streams have ended, and rows that are allocated at once. Bounds of memory.
inline constexpr size_t resting_statuses = 4096, allocated_statuses = 512;

}  // namespace ingot::backend::cuda::gpu_tuning
