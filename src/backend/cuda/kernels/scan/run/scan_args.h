// What the kernels of a scan take on CUDA, and what they are called.
#pragma once
#include <string>

#include "backend/cuda/kernels/run/axes.h"
#include "ir/dtype.h"
#include "kernels/scan/run/scan_args.h"

// `totals`: what each chunk of a line comes to, when lines are spread over several blocks.
#define INGOT_CUDA_SCAN \
  struct ScanCudaParameters { \
    unsigned long in, out, totals; \
    long lines, length, in_step, out_step; \
    long chunk;  /* elements of a line that a block goes through */ \
    long chunks; /* of a line */ \
    CudaAxes<2> axes; /* of the lines: in, out */ \
  };

namespace ingot::kernels {

INGOT_CUDA_SCAN

inline constexpr int scan_threads = 256, scan_items = 8;
inline constexpr int64_t scan_tile = scan_threads * scan_items;

// The kernels are name_lines (a thread a line), name_blocks (a block a chunk) and name_totals.
std::string scan_cuda_name(ScanArgs::Kind, ir::DType);

}  // namespace ingot::kernels
