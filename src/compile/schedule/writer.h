// Writes the fused body of one root by pulling its operands, and lists the memory that the body accesses.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backend/body.h"
#include "compile/storage/storage.h"

namespace ingot::compile {

struct WrittenBody {
  backend::FusedBody body;
  std::vector<BufferView> operands;            // layouts over the domain: loads, then stores
  ir::ValueId anchor = ir::none_id;            // whose result the accumulator holds: a GEMM or a depthwise convolution
  bool gated = false;                          // see backend::Gemm
  ir::ValueId contiguous = ir::none_id;        // the value below the target's view, if storing that instead would keep the anchor's columns contiguous
  std::string label;
};

// The body that computes `value` and stores it to `target`, which has value's dims. `itself`: the target is the value's own memory, so it is computed
// although it counts as stored. Otherwise (a part of a concatenation) a stored value is loaded.
Outcome<WrittenBody> write_root(const StoragePlan&, ir::ValueId value, const BufferView& target, bool itself);
// The prologue of a GEMM: it has one store, the row of A, which has no memory. Missing if it would contain a GEMM or more than one row.
Outcome<WrittenBody> write_prologue(const StoragePlan&, ir::ValueId a);
// The mask body of an attention: domain [batch.., S, T], accumulator = the score, one store without memory.
Outcome<WrittenBody> write_mask(const StoragePlan&, ir::ValueId mask, const ir::Dims& scores, ir::DType score);

}  // namespace ingot::compile
