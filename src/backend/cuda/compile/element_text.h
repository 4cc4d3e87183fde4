// A body on one element, for kernels that give the element's coordinates and the value of its accumulator: a mask on one score of attention, what
// stands behind a product.
#pragma once
#include <string>
#include <vector>

#include "backend/cuda/kernels/run/numbers_args.h"
#include "backend/offer.h"

namespace ingot::backend::cuda {

class ElementText {
 public:
  // `layouts`: of the operands that numbers speak of. `first_size`: sizes of the step before those of the body. `known`: numbers that are constants stand
  // in the text (and in known()), else all are parameters, so that one text serves all sizes.
  ElementText(const std::vector<StridedLayout>& layouts, size_t first_size, bool known) : layouts_(layouts), first_size_(first_size), known_constants_(known) {}

  std::string number(const kernels::CudaNumber&, const ir::Dim& value);
  std::string stride(size_t operand, size_t axis);
  std::string dim(size_t operand, size_t axis);
  std::string size(const ir::Dim&);
  // Takes for granted what `value` says of a stride.
  void take(const kernels::CudaNumber& number, int64_t value);

  // The body's instructions as constants r0, r1, .., a line each; the caller has `status` in scope. Coordinates by axis of the domain, loads of operand k
  // of the body being those of layouts[first_operand + k]; `brought`: expressions of loads that are there already, by instruction (others empty); `accumulators`: by half.
  // `for_halves`: the results become halves, for which a formula of fewer digits does. Error (unsupported) for what no function of one element expresses.
  std::string code(const FusedBody&, size_t first_operand, const std::vector<std::string>& coordinates, const std::vector<std::string>& accumulators,
                   const std::vector<std::string>& brought = {}, bool for_halves = false);

  const std::vector<kernels::CudaNumber>& numbers() const { return numbers_; }
  const std::vector<kernels::CudaKnown>& known() const { return known_; }
  const std::vector<ir::Dim>& sizes() const { return sizes_; }

 private:
  std::string parameter(const kernels::CudaNumber&);
  std::string load(const FusedBody&, const Instruction&, size_t first_operand, const std::vector<std::string>& coordinates);

  const std::vector<StridedLayout>& layouts_;
  size_t first_size_;
  bool known_constants_;
  std::vector<kernels::CudaNumber> numbers_;
  std::vector<kernels::CudaKnown> known_;
  std::vector<ir::Dim> sizes_;
};

// Whether ElementText::code can express it.
bool is_of_elements(const FusedBody&);

}  // namespace ingot::backend::cuda
