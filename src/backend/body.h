// The fused body: what every backend can compute. One loop nest over a domain, a straight
// list of typed element instructions, and row reductions.
//
// The domain is `outer` axes (run in parallel) followed by `row` axes (where reductions run). Every operand
// is a strided view (see plan::OperandView) whose leading axes are the domain axes, in order (size 1 with stride 0
// where it does not depend on an axis), followed by one axis per gathered index.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace ingot::backend {

using Reg = uint32_t;  // result of an instruction: its index in FusedBody::code

inline constexpr int64_t most_step = int64_t{1} << 20;  // of a guarded load

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
  ir::DType dtype;             // of the result. f16/bf16 values compute in f32: only load, store and cast name half types
  ir::Op op = ir::Op::add;     // map
  std::vector<Reg> in;         // map, reduce; load: the index registers (i64), one per gathered axis
  uint32_t operand = 0;        // load
  ir::Scalar number = 0;       // literal; load with `guarded`: the fill
  ir::Dim dim = 0;             // size
  uint32_t axis = 0;           // index
  uint32_t half = 0;           // accumulator: which half of the product's columns (Gemm::gated)
  Reduction reduction = Reduction::sum;
  // load: guarded axes. Domain axis d at i is the operand's coordinate i * step[d] - lower[d]; one outside of
  // 0 <= c < operand.dims[d] reads the fill. Empty = not guarded; no steps = all 1, else they are 1 at least.
  std::vector<ir::Dim> lower;
  std::vector<int64_t> step;
};

struct Store {
  uint32_t operand;
  Reg value;                   // converted to the operand's dtype; a row-uniform value into an operand whose row axes have size 1 is stored once
};

struct FusedBody {
  std::vector<ir::Dim> outer, row;
  std::vector<Instruction> code;    // SSA: operands come before their users
  std::vector<ir::DType> operands;  // dtype in memory of operand i
  std::vector<Store> stores;
};

// Stage of every instruction: reductions of stage s are read from stage s + 1 on. Count is at most 4 (Error).
std::vector<uint8_t> stages(const FusedBody&);

}  // namespace ingot::backend
