// A fused body's byte code at run time: verified once at load, bound once per set of sizes, then evaluated block by block.
// Also the epilogue of matmul (accumulator = the sums) and the mask of attention (accumulator = the scaled score).
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backend/cpu/kernels/fused/run/block_ops.h"
#include "ir/op.h"
#include "kernels/run/kernel.h"

namespace ingot::kernels {

enum class Kind : uint8_t { map, load, accumulator, literal, size, index, reduce, place };  // place: never in byte code

struct ProgramInstruction {
  Kind kind;
  ir::DType dtype;
  Class cls;                       // of the result
  ir::Op op;
  Reduction reduction;
  uint8_t axis;
  uint16_t operand;
  std::vector<uint32_t> in;        // of a load: places, how far its indices lead, checked; of a place: indices
  std::vector<uint8_t> axes;       // of a place: which gathered axis of the operand each index is of
  std::vector<uint32_t> lower;     // size indices, one per domain axis; empty = not guarded
  std::vector<uint32_t> step;      // the same; empty = all 1
  double f = 0;                    // literal, or fill
  int64_t i = 0;
  uint32_t size = 0;
  int stage = 0;                   // reductions of earlier stages it needs
  int slot = -1;                   // block memory; -1 for values that are only ever uniform
  int so_far = -1;                 // of a reduction across rows: block memory until it is finished
};

struct ProgramStore {
  uint16_t operand;
  uint32_t reg;
};

// The body only adds a bias along the last axis and/or a residual and/or applies one activation, then stores. Bias and residual are f32 or of the result's type.
// x * clamp(x + shift, low, high) * factor: hard swish is shift 3, from 0 to 6, factor 1 / 6.
struct HardSwish {
  float shift = 0, low = 0, high = 0, factor = 1;
};

struct SimpleEpilogue {
  enum Activation : uint8_t { none, relu, gelu, gelu_tanh, silu, clamp, hard_swish, leaky };
  bool valid = false;
  ir::DType type = ir::DType::f32; // of the result: f32, f16 or bf16
  int bias = -1, residual = -1;    // operands
  int scale = -1;                  // the accumulator is multiplied by it first
  Activation activation = none;    // after the bias, before the residual
  bool activates_last = false;     // it stands behind the residual
  float low = 0, high = 0;         // of clamp
  HardSwish hard_swish_by;
  float slope = 0;                 // of leaky: numbers that are not above 0 are multiplied by it
  int slope_operand = -1;          // whose one element is the slope

  // Which of two sums is the bias: `is_row` says whether an operand is the same for all rows.
  template <class IsRow>
  void order(IsRow is_row) {
    const bool free = activation == none || activates_last;
    if (free && bias >= 0 && residual >= 0 && !is_row(bias) && is_row(residual)) std::swap(bias, residual);
    if (bias < 0 || residual >= 0 || is_row(bias)) return;
    std::swap(bias, residual);
    activates_last = activation != none;
  }
};

struct Program {
  int domain_rank = 0, row_rank = 0;
  int operands = 0;                // loads and stores; the last stores.size() are written
  std::vector<ir::DType> memory;   // per operand
  std::vector<uint8_t> gathered;   // index axes per operand
  std::vector<ProgramInstruction> code;
  std::vector<ProgramStore> stores;
  size_t sizes = 0;
  int slots = 0;
  int stages = 1;
  bool has_reductions = false, has_accumulator = false;
  Class accumulator = Class::f32;
  SimpleEpilogue simple;
};

// Parses and verifies untrusted byte code for a step with this many operands and sizes. `memory_stores`: false for masks,
// whose single store has no operand. Error (format).
std::shared_ptr<const Program> load_program(std::span<const std::byte> code, size_t operands, size_t sizes, bool memory_stores = true);

// Instructions of f32 blocks that run as one pass. Found when a program is bound, because only then it is known which
// values are uniform.
struct Together {
  enum Kind : uint8_t {
    alone,
    absorbed,      // inside another one: not computed
    activate,      // op(in0 + in1) * in2 + in3
    normalise,     // (in0 - in1) * in2 * in3 + in4
    multiply_add,  // in0 * in1 + in2
    extreme,       // the greatest or the least (op) of in0 to in2, or to in4
    exp_sum,       // exp(in0 - in1), and its sum for the reduction `sum`
    divide,        // in0 / in1, in1 a sum of exponentials: at least 1
    square_sum,    // of a reduction: the sum of (in0 - in1)^2; in double, in0 may be f32
    widened_sum,   // of a reduction in double: the sum of in0, which is f32
    weighed_sum,   // of a reduction across rows: the sum of in0 * in1, or of 0 where in2 is false
  } kind = alone;
  ir::Op op = ir::Op::add;
  uint32_t in[5] = {none, none, none, none, none};  // none: the number that changes nothing
  uint32_t sum = none;
  static constexpr uint32_t none = UINT32_MAX;
};

// A program bound to operands of known sizes.
struct Bound {
  std::shared_ptr<const Program> program;
  std::vector<int64_t> domain;
  std::vector<int64_t> sizes;
  std::vector<std::vector<int64_t>> strides;  // per operand and domain axis, then gathered axes
  std::vector<std::vector<int64_t>> dims;
  std::vector<std::vector<int64_t>> lower, step;  // per instruction, when guarded
  std::vector<uint8_t> uniform;               // per instruction: the same along the last axes of a row
  std::vector<Together> together;             // per instruction
  std::vector<uint32_t> active;               // instructions to run, in order: no numbers, nothing absorbed
  std::vector<uint32_t> each_row;             // the same for a row that is one block, without loads that are the same for all rows
  std::vector<uint32_t> reductions;
  enum : uint8_t { never, always, inside, looked_up };
  std::vector<uint8_t> straight;              // per instruction: whether a load's memory is the block; inside: when no guard keeps anything out, looked_up: behind indices
  std::vector<uint8_t> in_place;              // per instruction: store index + 1 when it writes straight to memory
  // Reductions across rows: blocks run along an outer axis, which stands last, and each of their elements has a reduction of its own, over `across` axes in
  // front of it. 0: a row is reduced by itself.
  int across = 0;
  int64_t places = 1;                         // elements of these axes
  std::vector<uint8_t> once;                  // per store: not along a row
  bool in_order = false;                      // sums are taken one element after another, as across rows
  bool copies = false;                        // memory is copied as it is, block by block
  // Operands that lie along the axis before the last: tiles of them are transposed into scratch, where strides[operand] leads (stage.h).
  struct Staged {
    uint16_t operand;
    std::vector<int64_t> strides;             // in memory, of each axis
  };
  std::vector<Staged> staged;
  // A short last axis is walked together with the one before it: a row has both (row_rank 2), and a block whole lines of so many elements. 0: it is not.
  int64_t line = 0;
  std::vector<uint8_t> repeats;               // per instruction: a load that is the same for all lines; it keeps its slot from block to block
  size_t block = 0;                           // elements of a slot
  size_t scratch = 0;                         // bytes one worker needs

  // Everywhere in the domain the operand is the same element.
  bool is_one(int operand) const {
    const std::vector<int64_t>& of = strides[static_cast<size_t>(operand)];
    return std::all_of(of.begin(), of.end(), [](int64_t x) { return x == 0; });
  }
};

// Checks dtypes, ranks and dims of the operands against the domain (Error format): afterwards evaluation cannot leave them.
// `row_axes`: how many trailing axes one evaluation runs over. Merges axes where all operands allow it (only when `may_merge`).
Bound bind_program(std::shared_ptr<const Program>, std::span<const TensorRef> operands, std::span<const int64_t> sizes, std::vector<int64_t> domain, bool may_merge);

// Its steps. Of untrusted sizes and operands: all checks, and the program as it stands.
Bound check_operands(const Program&, std::span<const TensorRef> operands, std::span<const int64_t> sizes, std::vector<int64_t> domain);
// Whether the guard of load k may keep something out along an axis.
bool limits(const Bound&, size_t k, const ProgramInstruction&, int axis);
// Neighbouring axes that every operand walks as one become one.
void merge_axes(Bound&, Program&);
// Walks a short last axis together with the one before it, where all operands are read and stored plainly.
bool may_join_lines(const Bound&, const Program&);
void join_lines(Bound&, Program&);
// Lines of an operand lie one behind another.
inline bool is_solid(const Bound& b, const Program& p, size_t operand) {
  const std::vector<int64_t>& s = b.strides[operand];
  const auto last = static_cast<size_t>(p.domain_rank) - 1;
  return s[last] == 1 && (b.line == 0 || s[last - 1] == b.line);
}
// What runs, where blocks lie, how much scratch it takes.
void finish_binding(Bound&, std::shared_ptr<Program>);

// Chooses what runs together; needs Bound::uniform.
void find_together(Bound&, const Program&);

// Bytes of an element of a block.
inline size_t size_of(Class c) { return c == Class::b8 ? 1 : c == Class::f32 ? 4 : 8; }
// Memory of the type is as blocks are: it is copied, or used where it lies. Not bools, which are any number but 0 in memory.
inline bool lies_as_blocks(ir::DType t) { return t == ir::DType::f32 || t == ir::DType::f64 || t == ir::DType::i64; }

// One worker's state while it evaluates a bound program.
class Evaluator {
 public:
  // `held`: where the operands behind the step's own lie.
  Evaluator(const Bound& bound, std::span<const TensorRef> operands, std::byte* scratch, std::byte* const* held = nullptr);
  // The whole row at outer coordinates `at`, reductions included.
  void row(const int64_t* at);
  // Elements [begin, begin + n) along the last axis, each with all that it reduces. Leaves `at` changed along the axes that are reduced.
  void across(int64_t* at, int64_t begin, int64_t n);
  // The same where Bound::copies.
  void copy(const int64_t* at, int64_t begin, int64_t n);
  // Elements [begin, begin + n) of the row at `at` (n <= bound.block), no reductions. `accumulator`: n values or null.
  // `out`: when not null, the first store's value goes there, in that store's dtype, instead of memory.
  void segment(const int64_t* at, int64_t begin, int64_t n, const void* accumulator, void* out = nullptr);

 private:
  struct Value;
  BlockArgument argument(uint32_t reg) const;
  bool run_number(const ProgramInstruction&, Value&) const;
  bool nothing(uint32_t operand) const;
  void run(const ProgramInstruction&, uint32_t id, const int64_t* at, int64_t begin, int64_t n);
  void load(const ProgramInstruction&, uint32_t id, const int64_t* at, int64_t begin, int64_t n, void* to);
  const std::byte* whole(const ProgramInstruction&, uint32_t id, const int64_t* at, int64_t begin, int64_t n) const;
  void load_lines(const ProgramInstruction&, uint32_t id, const int64_t* at, int64_t begin, int64_t n);
  void write_lines(const ProgramStore&, const int64_t* at, int64_t begin, int64_t n);
  void load_piece(const ProgramInstruction&, uint32_t id, const int64_t* at, const int64_t* row, int64_t n, void* to, int64_t done);
  void gather_piece(const ProgramInstruction&, int64_t offset, int64_t n, void* to, int64_t done);
  int64_t index_at(const ProgramInstruction&, size_t k, int64_t e) const;
  void find_places(const ProgramInstruction&, Value&, int64_t* to, int64_t n);
  int64_t uniform_places(const ProgramInstruction&) const;
  void finish_across(const ProgramInstruction&, uint32_t id, int64_t n);
  bool sum_rows_across(int stage, int64_t* at, int64_t begin, int64_t n);
  void* target(uint32_t id, const int64_t* at, int64_t begin) const;
  void run_together(const Together&, uint32_t id, float* to, int64_t n);
  void accumulate(const ProgramInstruction&, uint32_t id, int64_t begin, int64_t n);
  void finish(const ProgramInstruction&, uint32_t id);
  void write(size_t store, const int64_t* at, int64_t begin, int64_t n);
  std::byte* slot(uint32_t id) const { return block(p_.code[id].slot); }
  std::byte* block(int slot) const;
  // Elements from an operand's first to its first at the outer coordinates `at`, along the first `axes` axes.
  int64_t offset_of(uint32_t operand, const int64_t* at, int axes) const {
    int64_t offset = 0;
    for (int a = 0; a < axes; ++a) offset += at[a] * b_.strides[operand][static_cast<size_t>(a)];
    return offset;
  }
  std::byte* data(uint32_t operand) const { return operand < operands_.size() ? operands_[operand].data : held_[operand - operands_.size()]; }

  const Bound& b_;
  const Program& p_;
  std::span<const TensorRef> operands_;
  std::byte* scratch_;
  std::byte* const* held_;
  struct Value {                // where an instruction's value is
    const void* data;
    uint64_t scalar;            // storage of a uniform value
    double sum;                 // of a reduction under way
    int64_t best;
    uint64_t scalar2;           // the best value of an integer argmax
    bool started;
  };
  Value* values_;
  const void* accumulator_ = nullptr;
  bool direct_ = true;          // stores may be written in place
};

}  // namespace ingot::kernels
