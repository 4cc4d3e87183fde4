// The parameters of GEMMs whose A warps read through the map.
#pragma once
#include "backend/cuda/kernels/gemm/run/gemm_args.h"

#define INGOT_CUDA_GEMM_IMPLICIT \
  struct ImplicitParameters { \
    GemmExtents size; \
    GemmMatrices matrices; \
    GemmShares shares; \
    GemmWalk walk; \
  };

namespace ingot::kernels {

INGOT_CUDA_GEMM_IMPLICIT

}  // namespace ingot::kernels
