// The domain of a root's fused body: the axes of its loops.
#pragma once
#include "compile/outcome.h"
#include "compile/schedule/body_writer.h"

namespace ingot::compile {

struct Domain {
  ir::Dims outer, row;               // of the body
  Point root;                        // the root's element at each place of the domain
  ir::ValueId anchor = ir::none_id;  // whose accumulator the body reads
  bool gated = false;                // see backend::Gemm
  bool uniform = false;              // the root is constant along the row

  ir::Dims dims() const;  // outer, then row
};

// `itself`: the value is computed although it counts as stored. Missing: what must be stored, since the root cannot be computed together with it.
Outcome<Domain> choose_domain(const StoragePlan&, ir::ValueId value, bool itself);

// The point whose axis d follows the domain's axis d.
Point identity(const ir::Dims&);
// True if an anchor is inlined in v.
bool has_anchor(const StoragePlan&, ir::ValueId v);
// Another kernel's result with the pointwise work on it and constants, like its bias: that kernel's epilogue computes it at no cost.
ir::ValueId with_own_epilogue(const StoragePlan&, ir::ValueId v);

}  // namespace ingot::compile
