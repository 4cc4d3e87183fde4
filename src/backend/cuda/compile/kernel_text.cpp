#include "backend/cuda/compile/kernel_text.h"

#include <algorithm>

#include "backend/cuda/compile/expression.h"
#include "backend/cuda/compile/reduction_text.h"
#include "backend/cuda/compile/store_text.h"
#include "backend/cuda/compile/tuning.h"
#include "backend/cuda/compile/value_text.h"

namespace ingot::backend::cuda {

using Variant = kernels::FusedCudaArgs::Variant;
using Kind = Instruction::Kind;

namespace {

// The loops over a thread's units and elements. Consecutive values share a loop; their arrays are declared before it.
class Loops {
 public:
  explicit Loops(ValueText& text) : t(text) {}

  void add(size_t k) {
    declare(k);
    enter(t.walk.level[k]);
    t.line("{} = {};", t.ref(static_cast<Reg>(k)), t.expression(k));
  }
  void end() {
    if (open_ == Level::element) t.close();
    if (open_ != Level::row) t.close();
    open_ = Level::row;
  }

 private:
  void declare(size_t k) {
    std::string text = fmt::format("{} r{}{};", value_type(t.body.code[k].dtype), k, t.shape(t.walk.level[k]));
    if (open_ == Level::row) return t.line("{}", text);
    text = std::string(2 * static_cast<size_t>(depth_), ' ') + text + "\n";
    t.out.insert(start_, text);
    start_ += text.size();
  }
  void enter(Level level) {
    if (open_ == level) return;
    end();
    start_ = t.out.size();
    depth_ = t.depth;
    t.unroll("u", t.variant.units);
    if (level == Level::element) t.unroll("v", t.unit);
    open_ = level;
  }

  ValueText& t;
  Level open_ = Level::row;  // the open loop; row: none
  size_t start_ = 0;         // where it starts in the text
  int depth_ = 0;
};

// True if load k is issued before the pass's other instructions. `registers`: what such loads take so far.
bool is_early(const ValueText& t, size_t k, int& registers) {
  if (!t.walk.rows || t.variant.reread || t.walk.stage[k] > 0) return true;
  int first_stage = 4;  // that uses it
  for (size_t user = k + 1; user < t.body.code.size(); ++user) {
    const auto& in = t.body.code[user].in;
    if (std::find(in.begin(), in.end(), k) != in.end()) first_stage = std::min<int>(first_stage, t.walk.stage[user]);
  }
  if (first_stage == 0) return true;
  int elements = t.variant.units * (t.walk.level[k] == Level::element ? t.unit : 1);
  registers += std::max(1, elements * static_cast<int>(ir::size_of(t.body.operands[t.body.code[k].operand])) / 4);
  return registers <= compile_tuning::early_registers;
}

// The loads that are issued early, by instruction.
std::vector<uint8_t> load_early(ValueText& t, const std::vector<uint8_t>& wanted) {
  std::vector<uint8_t> loaded(t.body.code.size(), 0);
  int registers = 0;
  for (size_t k = 0; k < t.body.code.size(); ++k) {
    const Instruction& i = t.body.code[k];
    if (!wanted[k] || i.kind != Kind::load || t.walk.level[k] == Level::row || !i.in.empty() || !is_early(t, k, registers)) continue;
    t.load(k);
    loaded[k] = 1;
  }
  return loaded;
}

// Computes the instructions in `wanted` for the thread's units, in order. `stage`: whose reductions it accumulates; -1: it stores. The only pass over a row also
// starts and finishes reductions and computes what is constant in the row; of several passes, that is done between them.
void pass(ValueText& t, const std::vector<uint8_t>& wanted, int stage) {
  const std::vector<uint8_t> loaded = load_early(t, wanted);
  const bool only = !t.variant.reread;
  Loops loops(t);
  for (size_t k = 0; k < t.body.code.size(); ++k) {
    if (!wanted[k]) continue;
    if (t.body.code[k].kind == Kind::reduce) {
      if (!only && t.walk.stage[k] != stage) continue;
      loops.end();
      if (only) start_reduction(t, k);
      accumulate(t, k);
      if (only) finish(t, k);
    } else if (t.walk.level[k] == Level::row) {
      if (!only) continue;
      loops.end();
      t.row_value(k);
    } else {
      if (t.body.code[k].kind == Kind::load && !loaded[k]) {
        loops.end();
        t.load(k);
      }
      loops.add(k);
    }
  }
  loops.end();
  if (stage < 0) unit_stores(t);
}

// One of several passes over a row: a loop over its units, some at a time.
void loop_over_row(ValueText& t, const std::vector<uint8_t>& wanted, int stage) {
  std::vector<size_t> reductions;
  for (size_t k = 0; k < t.body.code.size(); ++k) {
    if (t.body.code[k].kind == Kind::reduce && wanted[k] && t.walk.stage[k] == stage) reductions.push_back(k);
  }
  for (size_t k : reductions) start_reduction(t, k);
  t.open(fmt::format("for ({} first = 0; first < {}; first += {} * {}u) {{", t.index, t.units_text(), t.lanes(), t.variant.units));
  t.units("first + ");
  pass(t, wanted, stage);
  t.close();
  for (size_t k : reductions) finish(t, k);
}

// Values of this stage that are constant in a row.
void row_values(ValueText& t, int stage) {
  for (size_t k = 0; k < t.body.code.size(); ++k) {
    if (t.walk.level[k] == Level::row && t.body.code[k].kind != Kind::reduce && t.walk.stage[k] == stage) t.row_value(k);
  }
}

// A pass for the reductions of each stage, then one that stores.
void reread(ValueText& t) {
  const int last = last_stage(t.body, t.walk);
  for (t.pass = 0; t.pass <= last; ++t.pass) {
    row_values(t, t.pass);
    const std::vector<uint8_t> wanted = needed(t.body, t.walk, t.pass);
    if (std::find(wanted.begin(), wanted.end(), 1) != wanted.end()) loop_over_row(t, wanted, t.pass);
  }
  row_values(t, t.pass);
  if (has_unit_stores(t)) loop_over_row(t, needed(t.body, t.walk, -1), -1);
}

// `to`: where the body's one store goes if not to its operand.
void statements(ValueText& t, const std::string& to = "") {
  t.line("u64* const status = (u64*)p.status;");
  t.find_row();
  t.pointers(to);
  if (t.variant.kept > 0) t.keep_rows();
  if (t.variant.mapping == Variant::tile) load_tiles(t);
  if (t.variant.reread) {
    reread(t);
  } else {
    t.units("");
    pass(t, std::vector<uint8_t>(t.body.code.size(), 1), -1);
  }
  if (t.variant.mapping == Variant::tile) store_tiles(t);
  row_stores(t);
}

}  // namespace

std::string kernel_text(const FusedBody& body, const std::vector<StridedLayout>& layouts, const Walk& walk, const Variant& variant, Numbers& numbers, std::vector<ir::Dim>& sizes) {
  ValueText t(body, layouts, walk, variant, numbers, sizes);
  t.depth = 1;
  t.line("after_others();");
  statements(t);
  return std::move(t.out);
}

std::string row_text(const FusedBody& body, const std::vector<StridedLayout>& layouts, const Walk& walk, const Variant& variant, const std::string& to, Numbers& numbers,
                     std::vector<ir::Dim>& sizes) {
  ValueText t(body, layouts, walk, variant, numbers, sizes);
  t.depth = 2;
  statements(t, to);
  return std::move(t.out);
}

}  // namespace ingot::backend::cuda
