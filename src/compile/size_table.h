// The sizes of one function as a size program, each distinct expression once.
#pragma once
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/sizes.h"
#include "ir/dim.h"
#include "plan/plan.h"

namespace ingot::compile {

class SizeTable {
 public:
  SizeTable() = default;
  // Continues an existing program.
  explicit SizeTable(SizeProgram program);
  plan::SizeRef ref(const ir::Dim&);
  std::vector<plan::SizeRef> refs(std::span<const ir::Dim>);
  SizeProgram take() { return std::move(program_); }

 private:
  uint32_t add(SizeInstruction::Op op, uint32_t a, uint32_t b, int64_t value);

  SizeProgram program_;
  std::map<std::tuple<SizeInstruction::Op, uint32_t, uint32_t, int64_t>, uint32_t> known_;
};

}  // namespace ingot::compile
