// Attention of half precision as CUDA C++: blocks of queries in registers go along keys and values in shared memory, products by the
// matrix instructions of sm_80 and later, the softmax as it goes. The mask is printed into it.
#pragma once
#include <string>
#include <vector>

#include "backend/cuda/kernels/attention/run/attention_args.h"
#include "backend/offer.h"

namespace ingot::backend::cuda {

struct EmittedAttention {
  std::string name;                  // kernels are name_0, name_1, ...
  std::vector<std::string> kernels;  // those that were printed
  std::string text;                  // behind prelude(), the texts of matrix instructions and attention_text()
  std::vector<std::byte> arguments;  // kernels::AttentionCudaArgs
  std::vector<ir::Dim> sizes;        // of the step, behind S, T, D and E
};

// Behind the texts of matrix instructions.
std::string_view attention_text();
// `layouts`: of Q, K, V, the mask's loads and the result. `only`: the one kernel that is used where addresses allow it, for measurements; else sizes decide.
// A pure function. Error (unsupported) for masks that no element function expresses.
EmittedAttention emit_attention(const Attention&, const FusedBody* mask, const std::vector<StridedLayout>& layouts, int only = kernels::AttentionCudaArgs::by_sizes);

}  // namespace ingot::backend::cuda
