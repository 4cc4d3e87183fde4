// Prints a fused body's reductions along a row: each thread reduces its units, then the threads of the row reduce what they have.
#pragma once
#include "backend/cuda/compile/value_text.h"

namespace ingot::backend::cuda {

// Declares what the thread has of reduction k.
void start_reduction(ValueText&, size_t k);
// Adds the thread's units.
void accumulate(ValueText&, size_t k);
// Declares the row's value r<k>.
void finish(ValueText&, size_t k);

}  // namespace ingot::backend::cuda
