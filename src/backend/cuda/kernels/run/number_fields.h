// The numbers of printed kernels (numbers_args.h) in a step's constants, for the arguments of every kernel with a body.
#pragma once
#include "backend/cuda/kernels/run/numbers_args.h"
#include "base/fields.h"

namespace ingot::kernels {

void number_fields(FieldWriter&, const std::vector<CudaNumber>&, const std::vector<CudaKnown>&);
void number_fields(FieldReader&, std::vector<CudaNumber>&, std::vector<CudaKnown>&);
// True if the step has all that they name: so many sizes, and operands of these ranks.
bool do_exist(const std::vector<CudaNumber>&, const std::vector<CudaKnown>&, size_t sizes, const std::vector<size_t>& ranks);

}  // namespace ingot::kernels
