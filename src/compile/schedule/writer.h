// Writes the fused body of one root by pulling its operands, and lists the memory it touches.
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
  std::vector<BufferView> operands;            // laid over the domain, loads then stores
  ir::ValueId anchor = ir::none_id;            // what the accumulator is: a GEMM, or a depthwise convolution
  bool gated = false;                          // see backend::Gemm
  ir::ValueId turned = ir::none_id;            // what the target is a view of, if the anchor's columns are no neighbours there and this could be stored instead
  std::string label;
};

// The body that makes `value` and stores it to `target` (with value's dims). `itself`: the target is the value's own
// memory, so it is computed even though it counts as stored; else it may be a load (a part of a concatenation).
Outcome<WrittenBody> write_root(const StoragePlan&, ir::ValueId value, const BufferView& target, bool itself);
// The prologue of a GEMM: its store is the one row of A, without memory. Missing where there is a GEMM or more than a row in it.
Outcome<WrittenBody> write_prologue(const StoragePlan&, ir::ValueId a);
// The mask body of an attention: domain [batch.., S, T], accumulator = the score, one store without memory.
Outcome<WrittenBody> write_mask(const StoragePlan&, ir::ValueId mask, const ir::Dims& scores, ir::DType score);

}  // namespace ingot::compile
