// Parameters and names of the CUDA kernels of a scan.
#pragma once
#include <string>

#include "backend/cuda/kernels/run/axes.h"
#include "ir/dtype.h"
#include "kernels/scan/run/scan_args.h"

// `totals`: the total of each chunk of a line, if lines are split among several blocks.
#define INGOT_CUDA_SCAN \
  struct ScanCudaParameters { \
    unsigned long in, out, totals; \
    long lines, length, in_step, out_step; \
    long chunk;  /* elements of a line that a block (of columns: a thread) goes through */ \
    long chunks; /* of a line */ \
    CudaAxes<2> axes; /* of the lines: in, out */ \
  };

namespace ingot::kernels {

INGOT_CUDA_SCAN

// Kernels: name_lines (a thread per line), name_columns (a block per 32 lines), name_blocks (a block per chunk) and name_totals.
std::string scan_cuda_name(ScanArgs::Kind, ir::DType);

}  // namespace ingot::kernels
