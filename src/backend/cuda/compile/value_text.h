// Prints the instructions of a fused body for a thread's units: where a thread finds the operands, its loads, and its values.
#pragma once
#include <string>
#include <vector>

#include "backend/cuda/compile/unit_text.h"

namespace ingot::backend::cuda {

class ValueText : public UnitText {
 public:
  using UnitText::UnitText;

  // Declares the pointers q<instruction> of loads and t<store> of stores: the part of an address that is constant in a row. `to`: where the one store goes if not
  // to its operand; else empty.
  void pointers(const std::string& to);
  // Declares shared memory for the loads that several passes over the row need.
  void keep_rows();

  // A value in the kernel's text; `element` is the index inside a unit. Its shape in a declaration.
  std::string ref(Reg, const char* element = "v") const;
  std::string shape(Level) const;

  // Loads instruction k into m<k> (and in<k>: whether it is inside the operand).
  void load(size_t k);
  // Of a load: its value after load().
  std::string expression(size_t k);
  // Declares a value that is constant in a row.
  void row_value(size_t k);

  // As on the CPU: e / sum(e) becomes a product with the inverse, which is accurate because the sum is at least 1 (the text checks it).
  bool sums_exponentials(Reg) const;
  // The operand goes through tiles in shared memory: adjacent threads are neighbours along another axis than the one it is contiguous along.
  bool is_transposed(size_t operand) const { return variant.mapping == Variant::tile && walk.transposed[operand] != 0; }
  bool in_vectors(size_t operand) const { return unit > 1 && walk.vector[operand] != 0; }

  int pass = 0;  // which pass over the row is printed

 private:
  // A load's check that its coordinates and indices are inside the operand, and the address offset of its indices.
  struct Checked {
    std::string condition, offset;
  };
  Checked checked(size_t k, bool element);
  std::string loaded(size_t k);

  std::vector<size_t> kept;  // loads that the first pass stores in shared memory and later ones read there
};

}  // namespace ingot::backend::cuda
