// Writes the fused body of one root by pulling its operands, and lists the memory it touches.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backend/body.h"
#include "compile/buffer_view.h"
#include "ir/graph.h"

namespace ingot::compile {

class FunctionCompiler;

struct WrittenBody {
  backend::FusedBody body;
  std::vector<BufferView> operands;            // laid over the domain, loads then stores
  ir::ValueId anchor = ir::none_id;       // what the accumulator is: a product, or a sum over windows
  bool halves = false;                    // of the product's columns meet in the body (backend::Product)
  std::string label;
};

// The body that makes `value` and stores it to `target` (with value's dims). `itself`: the target is the value's own
// memory, so it is computed even though it counts as stored; else it may be a load (a part of a join). Throws Cut.
WrittenBody write_root(const FunctionCompiler&, ir::ValueId value, const BufferView& target, bool itself);
// The body that makes the one row of a product's left operand: its store is a row-major matrix without memory. Throws Cut where a product or more than a row
// is in it.
WrittenBody write_row(const FunctionCompiler&, ir::ValueId value);
// The mask body of an attention: domain [batch.., S, T], accumulator = the score, one store without memory.
WrittenBody write_mask(const FunctionCompiler&, ir::ValueId mask, const ir::Dims& scores, ir::DType score);

}  // namespace ingot::compile
