// The fused body, which every backend can compute: one loop nest over a domain, a straight list of typed element instructions, and reductions along rows.
//
// The domain is the `outer` axes (which run in parallel), then the `row` axes (along which reductions run). Every operand is a
// strided view (plan::OperandView). Its first axes are the domain's, in order, with size 1 and stride 0 where it does not depend
// on one; then comes one axis per gathered index.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace ingot::backend {

using Reg = uint32_t;  // the result of an instruction: its index in FusedBody::code

enum class Reduction : uint8_t { sum, prod, max, min, any, all, argmax, argmin };

struct Instruction {
  enum class Kind : uint8_t {
    map,        // op on registers `in`
    load,       // element of operand `operand`
    accumulator,// the anchor's value at this element (matmul: the sum, attention: the scaled score)
    literal,    // `number`
    size,       // `dim` as i64
    index,      // i64 coordinate along domain axis `axis`
    reduce,     // `reduction` of in[0] over the row axes; the result is uniform along the row
  };
  Kind kind;
  ir::DType dtype;             // of the result. f16 and bf16 compute in f32: only load, store, cast and bitcast have half types
  ir::Op op = ir::Op::add;     // map
  std::vector<Reg> in;         // map, reduce; load: the index registers (i64), one per gathered axis
  uint32_t operand = 0;        // load
  ir::Scalar number = 0;       // literal; guarded load: the fill value
  ir::Dim dim = 0;             // size
  uint32_t axis = 0;           // index
  uint32_t half = 0;           // accumulator: which half of the GEMM's columns (Gemm::gated)
  Reduction reduction = Reduction::sum;
  // load: guarded axes. At index i of domain axis d, the operand's coordinate is i * step[d] - lower[d]; outside 0 <= c < operand.dims[d] the fill value is
  // read. Empty `lower` = not guarded; empty `step` = all 1; steps are at least 1.
  std::vector<ir::Dim> lower;
  std::vector<int64_t> step;
};

struct Store {
  uint32_t operand;
  Reg value;                   // converted to the operand's dtype; a value uniform along the row is stored once if the operand's row axes have size 1
};

struct FusedBody {
  std::vector<ir::Dim> outer, row;
  std::vector<Instruction> code;    // SSA: operands come before their users
  std::vector<ir::DType> operands;  // dtype of operand i in memory
  std::vector<Store> stores;
};

// Stage of each instruction: a reduction of stage s can be read from stage s + 1 on. Error if there are more than 4 stages.
std::vector<uint8_t> stages(const FusedBody&);

}  // namespace ingot::backend
