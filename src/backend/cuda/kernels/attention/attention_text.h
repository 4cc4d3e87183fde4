// Attention of half precision as CUDA C++: blocks of queries in registers iterate over keys and values in shared memory, with an online softmax and the
// matrix instructions of sm_80 and later. The mask is printed into the kernel.
#pragma once
#include <string>
#include <vector>

#include "backend/cuda/compile/printed_kernels.h"
#include "backend/cuda/kernels/attention/run/attention_args.h"
#include "backend/site.h"

namespace ingot::backend::cuda {

struct EmittedAttention {
  PrintedKernels printed;
  std::string name;                  // kernels are name_0, name_1, ...
  std::vector<std::byte> arguments;  // kernels::AttentionCudaArgs
  std::vector<ir::Dim> sizes;        // of the step; after S, T, D and E
};

// What all kernels use; comes after prelude() and the texts of matrix instructions.
std::string_view attention_text();
// `layouts`: of Q, K, V, the mask's loads, if `filled` the numbers of keys, and the result. `only`: use this kernel wherever addresses allow it, for measurements; otherwise sizes decide. A
// pure function. Error (unsupported) for masks that no element function expresses.
EmittedAttention emit_attention(const Attention&, const FusedBody* mask, const std::vector<StridedLayout>& layouts, bool filled = false,
                                int only = kernels::AttentionCudaArgs::by_sizes);

}  // namespace ingot::backend::cuda
