#include "backend/cuda/compile/kernel_text.h"

#include <algorithm>

#include "backend/cuda/compile/expression.h"
#include "base/error.h"

namespace ingot::backend::cuda {

using ir::DType;
using Args = kernels::FusedCudaArgs;
using Variant = Args::Variant;
using Kind = Instruction::Kind;

namespace {

// Loads that only later stages need are issued early if they take no more registers than this.
constexpr int early_registers = 32;

class Printer : UnitText {
 public:
  Printer(const FusedBody& body, const std::vector<StridedLayout>& layouts, const Walk& walk, const Variant& variant, Numbers& numbers, std::vector<ir::Dim>& sizes)
      : UnitText(body, layouts, walk, variant, numbers, sizes) {}

  std::string run(size_t index) {
    line("extern \"C\" __global__ void __launch_bounds__({}) @{}(const __grid_constant__ @P p) {{", v_.threads, index);
    ++depth_;
    line("after_others();");
    statements();
    --depth_;
    line("}}");
    return std::move(out_);
  }

  std::string row(const std::string& to) {
    to_ = to;
    depth_ = 2;
    statements();
    return std::move(out_);
  }

 private:
  void statements() {
    line("u64* const status = (u64*)p.status;");
    find_row();
    pointers();
    if (v_.kept > 0) keep_rows();
    if (v_.mapping == Variant::tile) bring_turned();
    if (v_.reread) {
      for (int stage = 0; stage <= last_stage(b_, w_); ++stage) {
        row_values(stage);
        std::vector<uint8_t> wanted = needed(b_, w_, stage);
        turn_ = stage;
        if (has_work(wanted)) turns(wanted, stage);
      }
      turn_ = last_stage(b_, w_) + 1;
      row_values(turn_);
      std::vector<uint8_t> wanted = needed(b_, w_, -1);
      if (has_unit_stores()) turns(wanted, -1);
    } else {
      units("");
      pass(std::vector<uint8_t>(b_.code.size(), 1), -1);
    }
    if (v_.mapping == Variant::tile) send_turned();
    row_stores();
  }

  // ---- tiles

  bool is_turned(size_t operand) const { return v_.mapping == Variant::tile && w_.turned[operand] != 0; }

  // Loads of turned operands, and room for what is stored to them.
  void bring_turned() {
    for (size_t s = 0; s < b_.stores.size(); ++s) {
      if (is_turned(b_.stores[s].operand)) line("__shared__ {} out{}[32][33];", memory_type(b_.operands[b_.stores[s].operand]), s);
    }
    std::vector<size_t> loads;
    for (size_t k = 0; k < b_.code.size(); ++k) {
      if (b_.code[k].kind != Kind::load || !is_turned(b_.code[k].operand)) continue;
      loads.push_back(k);
      line("__shared__ {} in{}[32][33];", memory_type(b_.operands[b_.code[k].operand]), k);
    }
    if (loads.empty()) return;
    open("{");
    units_of_tile(true);
    unroll("u", v_.units);
    for (size_t k : loads) line("in{}{} = *(q{}{});", k, place_in_tile(false), k, offset(b_.code[k].operand, static_cast<int>(k), 0, w_.groups.size(), true));
    close();
    close();
    line("__syncthreads();");
  }

  void send_turned() {
    if (std::none_of(b_.stores.begin(), b_.stores.end(), [&](const Store& s) { return is_turned(s.operand); })) return;
    line("__syncthreads();");
    open("{");
    units_of_tile(true);
    unroll("u", v_.units);
    for (size_t s = 0; s < b_.stores.size(); ++s) {
      const size_t operand = b_.stores[s].operand;
      if (is_turned(operand)) line("if ({}) *(t{}{}) = out{}{};", stored_here(operand), s, offset(operand, -1, 0, w_.groups.size(), true), s, place_in_tile(true));
    }
    close();
    close();
  }

  // Whether unit u exists and is stored: of the places along an axis that the operand lacks, the first one is.
  std::string stored_here(size_t operand) const {
    std::string condition = "live[u]";
    for (size_t g = w_.outer; g < w_.groups.size(); ++g) {
      if (same_along(operand, g)) condition += fmt::format(" && c{}[u] == 0", g);
    }
    return condition;
  }

  // ---- addresses

  // The part of an address that is constant in a row.
  void pointers() {
    for (size_t k = 0; k < b_.code.size(); ++k) {
      if (b_.code[k].kind != Kind::load) continue;
      size_t operand = b_.code[k].operand;
      std::string_view type = memory_type(b_.operands[operand]);
      line("const {}* const q{} = (const {}*)p.pointer[{}]{};", type, k, type, operand, offset(operand, static_cast<int>(k), 0, w_.outer, false));
    }
    for (size_t s = 0; s < b_.stores.size(); ++s) {
      size_t operand = b_.stores[s].operand;
      std::string_view type = memory_type(b_.operands[operand]);
      std::string start = to_.empty() ? fmt::format("({}*)p.pointer[{}]", type, operand) : to_;
      line("{}* const t{} = {}{};", type, s, start, offset(operand, -1, 0, w_.outer, false));
    }
  }

  // Shared memory for what the first pass reads.
  void keep_rows() {
    kept_ = kept_loads(b_, w_);
    line("extern __shared__ uint4 kept_rows[];");
    size_t before = 0;
    for (size_t k : kept_) {
      DType t = b_.operands[b_.code[k].operand];
      line("{}* const kept{} = ({}*)((char*)kept_rows + (i64){} * {});", memory_type(t), k, memory_type(t), units_text(), before * static_cast<size_t>(unit_));
      before += ir::size_of(t);
    }
  }

  // ---- values

  std::string ref(Reg r, const char* v = "v") const {
    switch (w_.level[r]) {
      case Level::row: return fmt::format("r{}", r);
      case Level::unit: return fmt::format("r{}[u]", r);
      default: return fmt::format("r{}[u][{}]", r, v);
    }
  }
  std::string shape(Level l) const { return l == Level::row ? "" : l == Level::unit ? fmt::format("[{}]", v_.units) : fmt::format("[{}][{}]", v_.units, unit_); }

  // True if a map by this operation has a literal operand for which `holds`; `other` receives the other operand.
  template <class F>
  bool has_literal(Reg r, ir::Op op, const F& holds, Reg& other) const {
    const Instruction& i = b_.code[r];
    if (i.kind != Kind::map || i.op != op || i.in.size() != 2) return false;
    for (size_t k = 0; k < 2; ++k) {
      const Instruction& bound = b_.code[i.in[k]];
      other = i.in[1 - k];
      if (bound.kind == Kind::literal && holds(bound.number.to_double())) return true;
    }
    return false;
  }
  // True if an index was clamped to the axis: max(min(x, a), b) with 0 <= b and a, b < dim.
  bool is_clamped(Reg index, const ir::Dim& dim) const {
    if (!dim.is_constant()) return false;
    const auto end = static_cast<double>(dim.value());
    Reg below = index, any = index;
    return has_literal(index, ir::Op::max, [&](double b) { return 0 <= b && b < end; }, below) && has_literal(below, ir::Op::min, [&](double a) { return a < end; }, any);
  }

  // A load's check that its coordinates and indices are inside the operand, and the address offset of its indices.
  struct Checked {
    std::string condition, offset;
  };
  Checked checked(size_t k, bool element) {
    const Instruction& i = b_.code[k];
    Checked c;
    auto also = [&](const std::string& text) { c.condition += (c.condition.empty() ? "" : " && ") + text; };
    for (size_t axis = 0; axis < w_.guards[k].size(); ++axis) {
      if (!w_.guards[k][axis]) continue;
      also(fmt::format("(u64){} < (u64){}", shifted(static_cast<int>(k), static_cast<size_t>(w_.group_of[axis]), element), dim(i.operand, axis)));
    }
    for (size_t n = 0; n < i.in.size(); ++n) {
      size_t axis = w_.group_of.size() + n;
      if (!is_clamped(i.in[n], layouts_[i.operand].dims[axis])) also(fmt::format("inside({}, {}, status)", ref(i.in[n]), dim(i.operand, axis)));
      c.offset += fmt::format(" + (i64){} * {}", ref(i.in[n]), stride(i.operand, axis));
    }
    return c;
  }
  std::string fill(const Instruction& i) const { return i.lower.empty() ? fmt::format("({})0", value_type(i.dtype)) : literal(i.number, i.dtype); }

  bool in_vectors(size_t operand) const { return unit_ > 1 && w_.vector[operand] != 0; }

  // Loads k into m<k> (and in<k>: whether it is inside).
  void raw_load(size_t k) {
    const Instruction& i = b_.code[k];
    if (is_turned(i.operand)) {
      line("{} m{}{};", memory_type(b_.operands[i.operand]), k, shape(Level::element));
      unroll("u", v_.units);
      line("m{}[u][0] = in{}{};", k, k, place_in_tile(true));
      close();
      return;
    }
    bool element = w_.level[k] == Level::element, vector = element && in_vectors(i.operand);
    Checked c = checked(k, element && !vector);
    bool each = element && !vector;
    std::string at = fmt::format("q{}{}{}", k, offset(i.operand, static_cast<int>(k), w_.outer, w_.groups.size(), each), c.offset);
    line("alignas(16) {} m{}{};", memory_type(b_.operands[i.operand]), k, shape(w_.level[k]));
    if (!c.condition.empty()) line("bool in{}{};", k, each ? shape(Level::element) : shape(Level::unit));
    unroll("u", v_.units);
    if (each) unroll("v", unit_);
    std::string where = each ? "[u][v]" : "[u]", condition, kept;
    if (!c.condition.empty()) {
      line("in{}{} = {};", k, where, c.condition);
      condition = fmt::format("in{}{}", k, where);
    }
    if (std::find(kept_.begin(), kept_.end(), k) != kept_.end()) {
      // A thread reads only what it stored itself, so no barrier is needed.
      kept = fmt::format("kept{} + (i64)j[u] * {}{}", k, unit_, each && unit_ > 1 ? " + v" : "");
      std::string own = condition.empty() ? "live[u]" : "live[u] && " + condition;
      if (turn_ > 0) {
        at = kept;
        condition = own;
      }
    }
    std::string guard = condition.empty() ? "" : fmt::format("if ({}) ", condition);
    if (vector) {
      line("{}read<{}>(m{}[u], {});", guard, unit_, k, at);
    } else {
      line("{}m{}{} = *({});", guard, k, where, at);
    }
    if (!kept.empty() && turn_ == 0) {
      guard = condition.empty() ? "if (live[u]) " : fmt::format("if (live[u] && {}) ", condition);
      if (vector) {
        line("{}write<{}>({}, m{}[u]);", guard, unit_, kept, k);
      } else {
        line("{}*({}) = m{}{};", guard, kept, k, where);
      }
    }
    if (each) close();
    close();
  }
  std::string loaded(size_t k) {
    const Instruction& i = b_.code[k];
    bool element = w_.level[k] == Level::element;
    std::string v = fmt::format("value(m{}{})", k, element ? "[u][v]" : "[u]");
    if (checked(k, element).condition.empty()) return v;
    return fmt::format("in{}{} ? {} : {}", k, element && !in_vectors(i.operand) ? "[u][v]" : "[u]", v, fill(i));
  }

  std::string expression(size_t k) {
    const Instruction& i = b_.code[k];
    switch (i.kind) {
      case Kind::literal: return literal(i.number, i.dtype);
      case Kind::size: return size(i.dim);
      case Kind::index: {
        int g = w_.group_of[i.axis];
        return g < 0 ? "0ll" : coordinate(static_cast<size_t>(g), w_.level[k] == Level::element);
      }
      case Kind::load: return loaded(k);
      case Kind::map: {
        if (i.op == ir::Op::div && sums_exponentials(i.in[1]) && w_.level[i.in[0]] != Level::row) return fmt::format("over_sum({}, r{}, i{})", ref(i.in[0]), i.in[1], i.in[1]);
        std::vector<Argument> in;
        for (Reg r : i.in) in.push_back({b_.code[r].dtype, ref(r)});
        return map_expression(i.op, i.dtype, in, stores_halves(b_));
      }
      default: fail(Code::internal, "instruction {} of a fused body has no expression", k);
    }
  }

  // As on the CPU: e / sum(e) becomes a product with the inverse, which is accurate because the sum is at least 1 (the text checks it).
  bool sums_exponentials(Reg r) const {
    const Instruction& i = b_.code[r];
    if (i.kind != Kind::reduce || i.reduction != Reduction::sum || i.dtype != DType::f32) return false;
    const Instruction& of = b_.code[i.in[0]];
    return of.kind == Kind::map && of.op == ir::Op::exp;
  }

  void row_value(size_t k) {
    const Instruction& i = b_.code[k];
    if (i.kind == Kind::load) {
      Checked c = checked(k, false);
      std::string v = fmt::format("value(*(q{}{}))", k, c.offset);
      line("const {} r{} = {};", value_type(i.dtype), k, c.condition.empty() ? v : fmt::format("{} ? {} : {}", c.condition, v, fill(i)));
    } else {
      line("const {} r{} = {};", value_type(i.dtype), k, expression(k));
    }
  }
  void row_values(int stage) {
    for (size_t k = 0; k < b_.code.size(); ++k) {
      if (w_.level[k] == Level::row && b_.code[k].kind != Kind::reduce && w_.stage[k] == stage) row_value(k);
    }
  }

  // ---- reductions

  std::string reduction(const Instruction& i, bool first_sums) const {
    std::string_view from = value_type(b_.code[i.in[0]].dtype);
    bool f32 = from == "f32", f64 = from == "f64";
    std::string_view plain = from == "bool" ? "int" : from;
    switch (i.reduction) {
      // Sums of long rows are added in double, one number per few elements.
      case Reduction::sum:
        return fmt::format("Sum<{}, {}>", f32 ? (v_.reread && !first_sums ? "f64" : "f32") : f64 ? "f64" : "i64", f32 && v_.reread && !first_sums ? "f32" : from);
      case Reduction::prod: return fmt::format("Product<{}, {}>", f32 || f64 ? "f64" : "i64", from);
      case Reduction::max: return fmt::format("Largest<{}, {}>", plain, from);
      case Reduction::min: return fmt::format("Smallest<{}, {}>", plain, from);
      case Reduction::any: return fmt::format("Any<int, {}>", from);
      case Reduction::all: return fmt::format("All<int, {}>", from);
      case Reduction::argmax: return fmt::format("Best<{}, {}, true>", plain, plain);
      case Reduction::argmin: return fmt::format("Best<{}, {}, false>", plain, plain);
    }
    return {};
  }
  void start_reduction(size_t k) { line("typename {}::State a{} = {}::none();", alias(k), k, alias(k)); }
  std::string alias(size_t k) const { return fmt::format("R{}", k); }

  void accumulate(size_t k) {
    const Instruction& i = b_.code[k];
    std::string first = reduction(i, true);
    unroll("u", v_.units);
    line("typename {}::State part = {}::none();", first, first);
    unroll("v", unit_);
    line("part = {}::both(part, {}::one({}, (i64)j[u] * {} + v));", first, first, ref(i.in[0]), unit_);
    close();
    line("if (live[u]) a{} = {}::both(a{}, part);", k, alias(k), k);
    close();
  }
  void finish(size_t k) {
    const Instruction& i = b_.code[k];
    std::string across;
    switch (v_.mapping) {
      case Variant::warp: across = fmt::format("across_lanes<{}, {}>(a{})", alias(k), v_.lanes, k); break;
      case Variant::column: across = fmt::format("across_column<{}, {}, {}>(a{})", alias(k), k, v_.lanes, k); break;
      default: across = fmt::format("across_block<{}, {}>(a{})", alias(k), k, k);
    }
    bool arg = i.reduction == Reduction::argmax || i.reduction == Reduction::argmin;
    std::string narrowed = ir::size_of(i.dtype) < 4 && ir::is_integer(i.dtype) ? fmt::format("({})", ir::name_of(i.dtype)) : "";
    if (arg) across = fmt::format("place_of({})", across);
    line("const {} r{} = ({}){}{};", value_type(i.dtype), k, value_type(i.dtype), narrowed, across);
    if (sums_exponentials(static_cast<Reg>(k))) line("const f32 i{} = 1.0f / r{};", k, k);
  }

  // ---- passes over the units

  bool has_work(const std::vector<uint8_t>& wanted) const { return std::find(wanted.begin(), wanted.end(), 1) != wanted.end(); }

  void turns(const std::vector<uint8_t>& wanted, int stage) {
    std::vector<size_t> reductions;
    for (size_t k = 0; k < b_.code.size(); ++k) {
      if (b_.code[k].kind == Kind::reduce && wanted[k] && w_.stage[k] == stage) reductions.push_back(k);
    }
    for (size_t k : reductions) {
      line("typedef {} {};", reduction(b_.code[k], false), alias(k));
      start_reduction(k);
    }
    open(fmt::format("for ({} first = 0; first < {}; first += {} * {}u) {{", index_, units_text(), lanes(), v_.units));
    units("first + ");
    pass(wanted, stage);
    close();
    for (size_t k : reductions) finish(k);
  }

  bool early(size_t k, int& registers) const {
    if (!w_.rows || v_.reread || w_.stage[k] > 0) return true;
    // The first stage that uses it.
    int stage = 4;
    for (size_t user = k + 1; user < b_.code.size(); ++user) {
      const auto& in = b_.code[user].in;
      if (std::find(in.begin(), in.end(), k) != in.end()) stage = std::min<int>(stage, w_.stage[user]);
    }
    if (stage == 0) return true;
    int elements = v_.units * (w_.level[k] == Level::element ? unit_ : 1);
    registers += std::max(1, elements * static_cast<int>(ir::size_of(b_.operands[b_.code[k].operand])) / 4);
    return registers <= early_registers;
  }

  // Computes the instructions in `wanted` for the thread's units, in order. `stage`: of this pass, whose reductions end after the loop, or -1.
  void pass(const std::vector<uint8_t>& wanted, int stage) {
    std::vector<uint8_t> brought(b_.code.size(), 0);
    int registers = 0;
    for (size_t k = 0; k < b_.code.size(); ++k) {
      const Instruction& i = b_.code[k];
      if (!wanted[k] || i.kind != Kind::load || w_.level[k] == Level::row || !i.in.empty() || !early(k, registers)) continue;
      raw_load(k);
      brought[k] = 1;
    }
    bool inline_rows = !v_.reread;
    for (size_t k = 0; k < b_.code.size(); ++k) {
      const Instruction& i = b_.code[k];
      if (!wanted[k]) continue;
      if (i.kind == Kind::reduce) {
        if (!inline_rows) {
          if (w_.stage[k] == stage) end_loop(), accumulate(k);
          continue;
        }
        end_loop();
        line("typedef {} {};", reduction(i, false), alias(k));
        start_reduction(k);
        accumulate(k);
        finish(k);
      } else if (w_.level[k] == Level::row) {
        if (!inline_rows) continue;
        end_loop();
        row_value(k);
      } else {
        if (i.kind == Kind::load && !brought[k]) {
          end_loop();
          raw_load(k);
        }
        declare(k);
        in_loop(w_.level[k]);
        line("{} = {};", ref(static_cast<Reg>(k)), expression(k));
      }
    }
    end_loop();
    if (stage < 0) unit_stores();
  }
  // Consecutive maps share a loop; its arrays are declared before it.
  void declare(size_t k) {
    if (loop_ != Level::row) {
      std::string text = fmt::format("{}{} r{}{};\n", std::string(2 * static_cast<size_t>(loop_depth_), ' '), value_type(b_.code[k].dtype), k, shape(w_.level[k]));
      out_.insert(loop_start_, text);
      loop_start_ += text.size();
    } else {
      line("{} r{}{};", value_type(b_.code[k].dtype), k, shape(w_.level[k]));
    }
  }
  void in_loop(Level level) {
    if (loop_ == level) return;
    end_loop();
    loop_start_ = out_.size();
    loop_depth_ = depth_;
    unroll("u", v_.units);
    if (level == Level::element) unroll("v", unit_);
    loop_ = level;
  }
  void end_loop() {
    if (loop_ == Level::element) close();
    if (loop_ != Level::row) close();
    loop_ = Level::row;
  }

  // ---- stores

  // True if the value is constant along the row, so that it is stored once.
  bool once(const Store& s) const {
    if (w_.level[s.value] != Level::row) return false;
    for (size_t g = w_.outer; g < w_.groups.size(); ++g) {
      if (w_.varies(s.operand, w_.groups[g]) || !same_along(s.operand, g)) return false;
    }
    return true;
  }
  // True if the operand has size 1 along a group of larger extent.
  bool same_along(size_t operand, size_t g) const {
    for (size_t a = w_.groups[g].first; a <= w_.groups[g].last; ++a) {
      const ir::Dim& d = layouts_[operand].dims[a];
      if (!(d.is_constant() && d.value() == 1)) return false;
    }
    return true;
  }
  bool has_unit_stores() const {
    return std::any_of(b_.stores.begin(), b_.stores.end(), [&](const Store& s) { return !once(s); });
  }
  void row_stores() {
    for (size_t s = 0; s < b_.stores.size(); ++s) {
      const Store& store = b_.stores[s];
      if (!once(store)) continue;
      std::string_view type = memory_type(b_.operands[store.operand]);
      line("if ({}lane == 0) *t{} = memory<{}>({});", v_.mapping == Variant::points ? "" : "own && ", s, type, ref(store.value));
    }
  }
  void unit_stores() {
    for (size_t s = 0; s < b_.stores.size(); ++s) {
      const Store& store = b_.stores[s];
      if (once(store)) continue;
      std::string_view type = memory_type(b_.operands[store.operand]);
      size_t last = w_.groups.size() - 1;
      bool first_only = same_along(store.operand, last);
      unroll("u", v_.units);
      if (is_turned(store.operand)) {
        line("out{}{} = memory<{}>({});", s, place_in_tile(false), type, w_.level[store.value] == Level::element ? ref(store.value, "0") : ref(store.value));
        close();
        continue;
      }
      open(fmt::format("if ({}) {{", stored_here(store.operand)));
      if (in_vectors(store.operand)) {
        line("alignas(16) {} m[{}];", type, unit_);
        line("#pragma unroll");
        open(fmt::format("for (int v = 0; v < {}; v += 2) {{", unit_));
        line("put2(m + v, {}, {});", ref(store.value), ref(store.value, "v + 1"));
        close();
        line("write<{}>(t{}{}, m);", unit_, s, offset(store.operand, -1, w_.outer, w_.groups.size(), false));
      } else {
        unroll("v", first_only ? 1 : unit_);
        line("*(t{}{}) = memory<{}>({});", s, offset(store.operand, -1, w_.outer, w_.groups.size(), true), type, ref(store.value));
        close();
      }
      close();
      close();
    }
  }

  std::string to_;              // where the row is stored if not in memory
  int turn_ = 0;                // which pass over the row this is
  std::vector<size_t> kept_;    // loads that are kept in shared memory
  Level loop_ = Level::row;     // the loop that is open
  size_t loop_start_ = 0;
  int loop_depth_ = 0;
};

}  // namespace

std::string kernel_text(const FusedBody& body, const std::vector<StridedLayout>& layouts, const Walk& walk, const Variant& variant, size_t index, Numbers& numbers,
                        std::vector<ir::Dim>& sizes) {
  return Printer(body, layouts, walk, variant, numbers, sizes).run(index);
}

std::string row_text(const FusedBody& body, const std::vector<StridedLayout>& layouts, const Walk& walk, const Variant& variant, const std::string& to, Numbers& numbers,
                     std::vector<ir::Dim>& sizes) {
  return Printer(body, layouts, walk, variant, numbers, sizes).row(to);
}

}  // namespace ingot::backend::cuda
