// Builds the program of one part of a fused step: over some axes of the domain, with loads of what earlier parts hold.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "backend/cpu/kernels/fused/run/parts.h"

namespace ingot::kernels {

// What is cut.
struct Whole {
  Bound bound;
  Program program;
  Parts parts;
};

// A value that a part computes. It is an operand after the step's own.
struct HeldValue {
  uint32_t instruction;
  ir::DType dtype;
  std::vector<int64_t> strides;  // along each axis of the whole domain
  bool known = false;            // the part reads no memory
};

class PartProgram {
 public:
  // `part`: its axes; in_no_part: what remains, over the whole domain. `held`: by earlier parts; finish() reads it again.
  PartProgram(const Whole&, const std::vector<HeldValue>& held, Axes part);

  // Adds instruction k of the whole and what it needs: copies of instructions, or loads of held values. Gives its register here.
  uint32_t add(uint32_t k);
  // Binds the part. Its stores may write values that were added to `held` since it was made.
  Bound finish(std::vector<ProgramStore> stores);

  bool is_known() const { return known_; }
  const std::vector<size_t>& axes() const { return axes_; }  // in the whole domain

  Bound bound;
  std::shared_ptr<Program> program = std::make_shared<Program>();

 private:
  void declare_held();
  uint32_t add_copy(uint32_t k, ProgramInstruction i);
  uint32_t add_load(uint32_t k, ProgramInstruction i);
  uint32_t push(ProgramInstruction i, std::vector<int64_t> lower, std::vector<int64_t> step);
  void place_operand(uint32_t operand);

  const Whole& whole_;
  const std::vector<HeldValue>& held_;
  const Axes part_;
  std::vector<size_t> axes_;
  std::map<uint32_t, uint32_t> added_;  // instruction of the whole -> register
  bool known_ = true;
};

}  // namespace ingot::kernels
