// Prints a body for one element, for kernels that supply the element's coordinates and accumulator: the mask of one
// attention score, or the epilogue of a GEMM.
#pragma once
#include <string>
#include <vector>

#include "backend/cuda/kernels/run/numbers_args.h"
#include "backend/site.h"

namespace ingot::backend::cuda {

class ElementText {
 public:
  // `layouts`: of the operands that numbers refer to. `first_size`: how many sizes of the step come before the body's. `known`: constant numbers are printed
  // as literals (and listed in known()); otherwise all are parameters, so that one text serves all sizes.
  ElementText(const std::vector<StridedLayout>& layouts, size_t first_size, bool known) : layouts_(layouts), first_size_(first_size), known_constants_(known) {}

  std::string number(const kernels::CudaNumber&, const ir::Dim& value);
  std::string parameter(const kernels::CudaNumber&);
  std::string stride(size_t operand, size_t axis);
  std::string dim(size_t operand, size_t axis);
  std::string size(const ir::Dim&);
  // The size as a parameter even if it is constant: steps that differ only in it share their text.
  std::string size_as_parameter(const ir::Dim&);
  // Records that the text relies on this value of a number.
  void take(const kernels::CudaNumber& number, int64_t value);

  // The body's instructions as constants r0, r1, .., one per line; the caller has `status` in scope. `coordinates`: by axis of the domain. Loads
  // of the body's operand k are from layouts[first_operand + k]. `brought`: per instruction, the expression of a load that was made before, or
  // empty. `accumulators`: by half. `for_halves`: results are stored as half types, for which a less precise formula is enough. Error
  // (unsupported) for a body that no function of one element expresses.
  std::string code(const FusedBody&, size_t first_operand, const std::vector<std::string>& coordinates, const std::vector<std::string>& accumulators,
                   const std::vector<std::string>& brought = {}, bool for_halves = false);

  const std::vector<kernels::CudaNumber>& numbers() const { return numbers_; }
  const std::vector<kernels::CudaKnown>& known() const { return known_; }
  const std::vector<ir::Dim>& sizes() const { return sizes_; }

 private:
  std::string load(const FusedBody&, const Instruction&, size_t first_operand, const std::vector<std::string>& coordinates);

  const std::vector<StridedLayout>& layouts_;
  size_t first_size_;
  bool known_constants_;
  std::vector<kernels::CudaNumber> numbers_;
  std::vector<kernels::CudaKnown> known_;
  std::vector<ir::Dim> sizes_;
};

// True if ElementText::code can print the body.
bool is_of_elements(const FusedBody&);

}  // namespace ingot::backend::cuda
