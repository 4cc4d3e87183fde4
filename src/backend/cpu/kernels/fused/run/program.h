// A fused body's byte code at run time: verified once at load, bound once per set of sizes, evaluated block by block. It is also the epilogue of matmul
// (accumulator = the sum) and the mask of attention (accumulator = the scaled score).
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
  std::vector<uint32_t> in;        // of a load: `place` instructions, whose offsets are checked; of a place: the indices
  std::vector<uint8_t> axes;       // of a place: the gathered axis of the operand for each index
  std::vector<uint32_t> lower;     // sizes, one per domain axis; empty = not guarded
  std::vector<uint32_t> step;      // the same; empty = all 1
  double f = 0;                    // of a literal, or the fill value
  int64_t i = 0;
  uint32_t size = 0;
  int stage = 0;                   // it needs reductions of earlier stages
  int slot = -1;                   // block memory; -1 if always uniform
  int so_far = -1;                 // of a reduction across rows: block memory until it is finished
};

struct ProgramStore {
  uint16_t operand;
  uint32_t reg;
};

// A common epilogue: [scale], bias along the last axis, residual, one activation, then a store. Bias and residual are f32 or of the result's type.
// x * clamp(x + shift, low, high) * factor: hard swish has shift 3, limits 0 and 6, factor 1 / 6.
struct HardSwish {
  float shift = 0, low = 0, high = 0, factor = 1;
};

struct SimpleEpilogue {
  enum Activation : uint8_t { none, relu, gelu, gelu_tanh, silu, clamp, hard_swish, leaky };
  bool valid = false;
  ir::DType type = ir::DType::f32; // of the result: f32, f16 or bf16
  int bias = -1, residual = -1;    // operand indices
  int scale = -1;                  // the accumulator is multiplied by it first
  Activation activation = none;    // after the bias, before the residual
  bool activates_last = false;     // it comes after the residual
  float low = 0, high = 0;         // of clamp
  HardSwish hard_swish_by;
  float slope = 0;                 // of leaky: factor of negative numbers
  int slope_operand = -1;          // operand whose only element is the slope

  // Decides which of the two sums is the bias. `is_row`: true for an operand that is the same for all rows.
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
  int operands = 0;                // loads, then stores
  std::vector<ir::DType> memory;   // per operand
  std::vector<uint8_t> gathered;   // gathered axes
  std::vector<ProgramInstruction> code;
  std::vector<ProgramStore> stores;
  size_t sizes = 0;
  int slots = 0;
  int stages = 1;
  bool has_reductions = false, has_accumulator = false;
  bool in_order = false;           // sums take one element after another, whatever the strides
  Class accumulator = Class::f32;
  SimpleEpilogue simple;
};

// Parses and verifies untrusted byte code for a step with this many operands and sizes. `memory_stores`: false for masks,
// whose one store has no operand. Error (format).
std::shared_ptr<const Program> load_program(std::span<const std::byte> code, size_t operands, size_t sizes, bool memory_stores = true);

// Instructions on blocks that run as one pass. They are found when a program is bound, because only then it is known which values are uniform.
struct Together {
  enum Kind : uint8_t {
    alone,
    absorbed,      // part of another one: not computed
    activate,      // op(in0 + in1) * in2 + in3
    normalise,     // (in0 - in1) * in2 * in3 + in4
    multiply_add,  // in0 * in1 + in2
    extreme,       // the maximum or minimum (op) of in0 to in2, or to in4
    exp_sum,       // exp(in0 - in1), and its sum for the reduction `sum`
    divide,        // in0 / in1, where in1 is a sum of exponentials: at least 1
    product_sum,   // of a reduction: the sum of in0 * in1
    square_sum,    // of a reduction: the sum of (in0 - in1)^2; if in double, in0 may be f32
    widened_sum,   // of a reduction in double: the sum of an f32 in0
    weighed_sum,   // of a reduction across rows: the sum of in0 * in1, or of 0 where in2 is false
    half_sum,      // of a reduction: the sum of halves in memory
    one_pass,      // `pass` of in0 to in2, of elements as they are in memory of type `memory`
    places,        // op(the place along the last axis, in0), an ordering of integers. `pass`: in1 is added to the place (add) or subtracted (sub), or the place from it (neg)
  } kind = alone;
  ir::Op op = ir::Op::add;
  uint32_t in[5] = {none, none, none, none, none};  // none: the neutral number
  uint32_t sum = none;
  Pass pass = Pass::add;
  ir::DType memory = ir::DType::f32;
  static constexpr uint32_t none = UINT32_MAX;
};

// A program bound to operands of known sizes.
struct Bound {
  std::shared_ptr<const Program> program;
  std::vector<int64_t> domain;
  std::vector<int64_t> sizes;
  std::vector<std::vector<int64_t>> strides;  // per operand: along the domain's axes, then gathered axes
  std::vector<std::vector<int64_t>> dims;
  std::vector<std::vector<int64_t>> lower, step;  // per instruction, if guarded
  std::vector<uint8_t> uniform;               // per instruction: constant along the last axes of a row
  std::vector<Together> together;             // per instruction
  std::vector<uint8_t> in_memory;             // per instruction: a load of halves or bools whose users read them as they are in memory
  std::vector<uint32_t> active;               // instructions to run, in order, without literals and absorbed ones
  std::vector<std::vector<uint32_t>> passes;  // per stage: those of `active` that its reductions need, or the stores in the last one
  std::vector<uint32_t> each_row;             // as `active`, for rows of one block, without loads that are constant over all rows
  std::vector<uint32_t> reductions;
  enum : uint8_t { never, always, inside, looked_up };
  std::vector<uint8_t> straight;              // per instruction: is the load's memory the block itself? inside: if no guard excludes an element; looked_up: at an indexed place
  std::vector<uint8_t> in_place;              // per instruction: store index + 1 if it writes directly to memory
  // Reductions across rows: blocks run along an outer axis, which is moved to the end, and each element of a block has its own reduction over the
  // `across` axes before it. 0: each row is reduced by itself.
  int across = 0;
  int64_t places = 1;                         // number of elements of these axes
  std::vector<uint8_t> once;                  // per store: one element per row
  // Short rows that follow one another along the last outer axis: an instruction runs over as many of them before the next one starts. 0: rows are computed one by one.
  int64_t rows_together = 0;
  std::vector<uint8_t> differs;               // per instruction, if rows are together: has it another value in each row?
  std::vector<int64_t> row_bytes;             // and their stride
  bool in_order = false;                      // sums are taken one element after another, as across rows
  bool copies = false;                        // memory is copied unchanged, block by block
  // Operands that are contiguous along the second-to-last axis: tiles of them are transposed into scratch, which strides[operand] then refers to (stage.h).
  struct Staged {
    uint16_t operand;
    std::vector<int64_t> strides;             // in the operand's own memory, per axis
  };
  std::vector<Staged> staged;
  // Reductions across rows whose elements are contiguous: tiles of these rows are transposed into scratch, and results back from there. Loads, then stores.
  std::vector<Staged> transposed;
  size_t transposed_loads = 0;
  int64_t transposed_places = 0;                  // the most elements of such a row
  // A short last axis, or a longer one whose lines follow one another, is joined with the one before it: a row has both axes (row_rank 2), and blocks are whole
  // lines of this many elements. 0: not joined.
  int64_t line = 0;
  std::vector<uint8_t> repeats;               // per instruction: a load that is the same for all lines keeps its slot between blocks
  size_t block = 0;                           // elements per slot
  size_t scratch = 0;                         // bytes per worker

  // True if the program computes each element by itself, along one axis, from operands in their own memory.
  bool is_elementwise(const Program& p) const { return !p.has_reductions && !p.has_accumulator && p.row_rank == 1 && across == 0 && staged.empty(); }
  // True if the operand is one element for the whole domain.
  bool is_one(int operand) const {
    const std::vector<int64_t>& of = strides[static_cast<size_t>(operand)];
    return std::all_of(of.begin(), of.end(), [](int64_t x) { return x == 0; });
  }
};

// Lets integers be computed in their own type where blocks can: adds the conversions between these and i64. The code of a checked program has all integers as i64.
void narrow_integers(Program&);

// Checks dtypes, ranks and dims of the operands against the domain (Error format); afterwards evaluation stays inside them. Merges
// axes where all operands allow it, if `may_merge`.
Bound bind_program(std::shared_ptr<const Program>, std::span<const TensorRef> operands, std::span<const int64_t> sizes, std::vector<int64_t> domain, bool may_merge);

// Its first step: makes all checks of untrusted sizes and operands, and binds the program unchanged.
Bound check_operands(const Program&, std::span<const TensorRef> operands, std::span<const int64_t> sizes, std::vector<int64_t> domain);
// True if the guard of load k may exclude something along an axis.
bool limits(const Bound&, size_t k, const ProgramInstruction&, int axis);
// Merges neighbouring axes that every operand can walk as one.
void merge_axes(Bound&, Program&);
// True if a short last axis can be joined with the one before it: all loads and stores must be plain.
bool may_join_lines(const Bound&, const Program&);
void join_lines(Bound&, Program&);
// True if lines of an operand follow each other without gaps.
inline bool is_solid(const Bound& b, const Program& p, size_t operand) {
  const std::vector<int64_t>& s = b.strides[operand];
  const auto last = static_cast<size_t>(p.domain_rank) - 1;
  return s[last] == 1 && (b.line == 0 || s[last - 1] == b.line);
}
// The last step: assigns blocks, and decides what runs and how much scratch it takes.
void finish_binding(Bound&, std::shared_ptr<Program>);

// Chooses the instructions that run as one pass; needs Bound::uniform.
void find_together(Bound&, const Program&);

// Decides whether several short rows are computed together; needs Bound::together.
void join_rows(Bound&, const Program&);

// In how many parts the first sum across rows is taken: parts of the rows, so that a worker reads those that it wrote.
int64_t sums_across(const Bound&);
// In how many parts the reductions of a row are taken, if that is all that happens along it: 1 if it is short.
int64_t parts_of_row(const Bound&);

// True if instruction k is a load that a block can refer to where it is, if its type allows it: contiguous, all inside, without indices along the row.
bool is_whole(const Bound&, const Program&, uint32_t k);

// True if memory of this type has the form of blocks, so that it is copied or used in place. False for bools, which may be any non-zero byte in memory.
inline bool has_block_layout(ir::DType t) { return t == ir::DType::f32 || t == ir::DType::f64 || ir::is_integer(t); }

// Where the operands of a bound program are: the step's own, then extra ones.
struct OperandData {
  std::span<const TensorRef> own;
  std::byte* const* held;
  std::byte* operator[](uint32_t operand) const { return operand < own.size() ? own[operand].data : held[operand - own.size()]; }
};

// The state of one worker while it evaluates a bound program.
class Evaluator {
  struct Value {                // the current value of an instruction
    const void* data;
    uint64_t scalar;            // a uniform value
    double sum;                 // of a running reduction
    int64_t best;
    uint64_t scalar2;           // the best value so far of an integer argmax
    bool started;
  };

 public:
  static constexpr size_t state_bytes = sizeof(Value);
  // `held`: data of the extra operands after the step's own.
  Evaluator(const Bound& bound, std::span<const TensorRef> operands, std::byte* scratch, std::byte* const* held = nullptr);
  // Evaluates the row at outer coordinates `at`, with its reductions.
  void row(const int64_t* at);
  // The same for `count` rows along the last outer axis, if Bound::rows_together.
  void rows(const int64_t* at, int64_t count);
  // The reductions of one part of the row, whose state goes to `to` (state_bytes for each), and what follows when all parts are taken.
  void part_of_row(const int64_t* at, int64_t part, int64_t parts, std::byte* to);
  void row_of_parts(const int64_t* at, int64_t parts, const std::byte* states);
  // Evaluates elements [begin, begin + n) along the last axis, with their reductions across rows. Changes `at` along the reduced axes.
  // `sums`: all parts of the first sum, one after the other, if it was taken in parts.
  void across(int64_t* at, int64_t begin, int64_t n, std::span<const double> sums = {});
  // One part of the first sum across rows, over all elements along the last axis.
  void sum_across(const int64_t* at, int64_t part, int64_t parts, double* to) const;
  // The same if Bound::copies.
  void copy(const int64_t* at, int64_t begin, int64_t n);
  // Evaluates elements [begin, begin + n) of the row at `at` (n <= bound.block) of a program without reductions. `accumulator`: n values or null. `out`: if
  // not null, receives the first store's value, in that store's dtype, instead of memory.
  void segment(const int64_t* at, int64_t begin, int64_t n, const void* accumulator, void* out = nullptr);

 private:
  BlockArgument argument(uint32_t reg) const;
  void apply(const ProgramInstruction&, uint32_t id, void* to, int64_t n);
  void load_rows(const ProgramInstruction&, uint32_t id, const int64_t* at, int64_t count);
  void map_rows(const ProgramInstruction&, uint32_t id, const int64_t* at, int64_t count);
  bool map_by_rows(const ProgramInstruction&, uint32_t id, float* to, int64_t count);
  void reduce_rows(const ProgramInstruction&, uint32_t id, int64_t count);
  void write_rows(size_t store, const int64_t* at, int64_t count);
  bool writes_rows(uint32_t id) const;
  bool run_number(const ProgramInstruction&, Value&) const;
  bool nothing(uint32_t operand) const;
  void run(const ProgramInstruction&, uint32_t id, const int64_t* at, int64_t begin, int64_t n);
  void load(const ProgramInstruction&, uint32_t id, const int64_t* at, int64_t begin, int64_t n, void* to);
  const std::byte* whole(const ProgramInstruction&, uint32_t id, const int64_t* at, int64_t begin, int64_t n) const;
  void load_lines(const ProgramInstruction&, uint32_t id, const int64_t* at, int64_t begin, int64_t n);
  void write_lines(const ProgramStore&, const int64_t* at, int64_t begin, int64_t n);
  void load_segment(const ProgramInstruction&, uint32_t id, const int64_t* at, const int64_t* row, int64_t n, void* to, int64_t done);
  void gather_segment(const ProgramInstruction&, int64_t offset, int64_t n, void* to, int64_t done);
  int64_t index_at(const ProgramInstruction&, size_t k, int64_t e) const;
  void find_places(const ProgramInstruction&, Value&, int64_t* to, int64_t n);
  int64_t uniform_places(const ProgramInstruction&) const;
  void finish_across(const ProgramInstruction&, uint32_t id, int64_t n);
  bool sum_rows_across(int stage, int64_t* at, int64_t begin, int64_t n, std::span<const double> sums);
  void* target(uint32_t id, const int64_t* at, int64_t begin) const;
  void run_together(const Together&, uint32_t id, float* to, int64_t n);
  void compare_places(const Together&, uint8_t* to, int64_t begin, int64_t n) const;
  void start_reductions();
  void merge(const ProgramInstruction&, Value& to, const Value& part) const;
  void accumulate(const ProgramInstruction&, uint32_t id, int64_t begin, int64_t n);
  bool accumulate_together(const ProgramInstruction&, uint32_t id, int64_t n);
  template <class Element>
  static void find_extreme(Value&, bool up, int64_t at, int64_t n, Element element);
  void finish(const ProgramInstruction&, uint32_t id);
  void write(size_t store, const int64_t* at, int64_t begin, int64_t n);
  std::byte* slot(uint32_t id) const { return block(p_.code[id].slot); }
  std::byte* block(int slot) const { return reinterpret_cast<std::byte*>(values_) + (p_.code.size() * state_bytes + 127) / 64 * 64 + static_cast<size_t>(slot) * b_.block * 8; }
  // Offset of the operand's element at the outer coordinates `at`, in elements, counting the first `axes` axes.
  int64_t offset_of(uint32_t operand, const int64_t* at, int axes) const {
    int64_t offset = 0;
    for (int a = 0; a < axes; ++a) offset += at[a] * b_.strides[operand][static_cast<size_t>(a)];
    return offset;
  }
  std::byte* data(uint32_t operand) const { return operands_[operand]; }

  const Bound& b_;
  const Program& p_;
  const OperandData operands_;
  Value* const values_;         // at the beginning of the worker's scratch memory; the blocks come after them
  const void* accumulator_ = nullptr;
  bool direct_ = true;          // stores may write directly to memory
  // Which row's values arguments are, if rows are together: those of one, or one value for each row.
  enum : int64_t { only_row = -1, each_row = -2 };
  int64_t row_ = only_row;
};

}  // namespace ingot::kernels
