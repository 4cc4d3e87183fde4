#include "backend/cpu/kernels/fused/run/program.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "ir/scalar_functions.h"
#include "kernels/fused/run/fused_args.h"

namespace ingot::kernels {

using ir::DType;

namespace {

Class class_of(DType t) {
  switch (t) {
    case DType::b8: return Class::b8;
    case DType::f64: return Class::f64;
    case DType::f32:
    case DType::f16:
    case DType::bf16: return Class::f32;
    case DType::c64: fail(Code::format, "fused code computes in a complex type");
    default: return Class::i64;
  }
}

class Reader {
 public:
  explicit Reader(std::span<const std::byte> code) : code_(code) {}
  template <class T>
  T get() {
    if (sizeof(T) > code_.size() - at_) fail(Code::format, "fused code ends too early");
    T v;
    std::memcpy(&v, code_.data() + at_, sizeof v);
    at_ += sizeof v;
    return v;
  }
  bool done() const { return at_ == code_.size(); }

 private:
  std::span<const std::byte> code_;
  size_t at_ = 0;
};

DType dtype(uint8_t v) {
  if (v >= ir::dtype_count) fail(Code::format, "fused code names an unknown dtype");
  return static_cast<DType>(v);
}

// Whether the primitive is one of that class of numbers: it is asked.
bool has_meaning(ir::Op op, Class c) {
  const bool one = ir::arity_of(op) == 1;
  try {
    if (c == Class::i64) {
      one ? ir::int_unary(op, 1) : ir::int_binary(op, 1, 1, 64, true);
    } else if (c != Class::b8 && op != ir::Op::nextafter) {
      one ? ir::float_unary(op, 1.0f) : ir::float_binary(op, 1.0f, 1.0f);
    }
  } catch (const Error&) {
    return false;
  }
  return true;
}

// The classes a map takes and gives.
void check_map(const Program& p, const ProgramInstruction& i) {
  if (!ir::is_map(i.op)) fail(Code::format, "fused code maps with {}", ir::name_of(i.op));
  if (static_cast<int>(i.in.size()) != ir::arity_of(i.op)) fail(Code::format, "fused code gives {} {} operands", ir::name_of(i.op), i.in.size());
  auto cls = [&](size_t k) { return p.code[i.in[k]].cls; };
  bool good = true;
  if (i.op == ir::Op::select) {
    good = cls(0) == Class::b8 && cls(1) == cls(2) && cls(1) == i.cls;
  } else if (i.op == ir::Op::cast) {
  } else if (ir::result_of(i.op) == ir::ResultType::boolean) {
    good = i.cls == Class::b8 && (i.in.size() < 2 || cls(0) == cls(1)) && (i.op != ir::Op::logical_not || cls(0) == Class::b8);
  } else {
    for (size_t k = 0; k < i.in.size(); ++k) good = good && cls(k) == i.cls;
  }
  if (good && i.op != ir::Op::select && i.op != ir::Op::cast && ir::result_of(i.op) != ir::ResultType::boolean) good = has_meaning(i.op, i.cls);
  if (!good) fail(Code::format, "fused code mixes types in {}", ir::name_of(i.op));
}

// Which operands must be complete before this one can start: the reductions below it.
void set_stages(Program& p) {
  for (ProgramInstruction& i : p.code) {
    for (uint32_t in : i.in) i.stage = std::max(i.stage, p.code[in].stage + (p.code[in].kind == Kind::reduce));
    p.stages = std::max(p.stages, i.stage + 1);
  }
}

SimpleEpilogue find_simple(const Program& p) {
  SimpleEpilogue s;
  if (p.stores.size() != 1 || !p.has_accumulator || p.has_reductions) return s;
  s.type = p.memory[p.stores[0].operand];
  if (s.type != DType::f32 && s.type != DType::f16 && s.type != DType::bf16) return s;
  // Walk back from the store: [+ residual] [activation] [+ bias] [scale *] accumulator, or activation [+ residual] [+ bias] ...
  uint32_t at = p.stores[0].reg;
  auto plain_load = [&](uint32_t k) {
    const ProgramInstruction& i = p.code[k];
    return i.kind == Kind::load && i.in.empty() && i.lower.empty() && (p.memory[i.operand] == DType::f32 || p.memory[i.operand] == s.type);
  };
  std::vector<int> added;  // outermost first
  bool activated = false;
  size_t before_activation = 0;
  for (;;) {
    const ProgramInstruction& i = p.code[at];
    if (i.kind == Kind::accumulator) break;
    if (i.kind != Kind::map || i.dtype != DType::f32) return s;
    if (i.op == ir::Op::add) {
      uint32_t other = plain_load(i.in[0]) ? i.in[0] : i.in[1], next = plain_load(i.in[0]) ? i.in[1] : i.in[0];
      if (!plain_load(other) || added.size() == 2) return s;
      added.push_back(p.code[other].operand);
      at = next;
      continue;
    }
    if (i.op == ir::Op::mul) {
      const bool first = p.code[i.in[0]].kind == Kind::accumulator;
      const uint32_t factor = i.in[first ? 1 : 0];
      if (p.code[i.in[first ? 0 : 1]].kind != Kind::accumulator || !plain_load(factor)) return s;
      s.scale = p.code[factor].operand;
      break;
    }
    if (activated) return s;
    activated = true;
    before_activation = added.size();
    // min(high, max(low, x)), numbers first.
    auto is_bounded = [&](const ProgramInstruction& x, ir::Op op) { return x.kind == Kind::map && x.op == op && x.dtype == DType::f32 && p.code[x.in[0]].kind == Kind::literal; };
    if (is_bounded(i, ir::Op::min) && is_bounded(p.code[i.in[1]], ir::Op::max)) {
      const ProgramInstruction& below = p.code[i.in[1]];
      s.activation = SimpleEpilogue::clamp;
      s.low = static_cast<float>(p.code[below.in[0]].f);
      s.high = static_cast<float>(p.code[i.in[0]].f);
      at = below.in[1];
      continue;
    }
    switch (i.op) {
      case ir::Op::relu: s.activation = SimpleEpilogue::relu; break;
      case ir::Op::gelu: s.activation = SimpleEpilogue::gelu; break;
      case ir::Op::gelu_tanh: s.activation = SimpleEpilogue::gelu_tanh; break;
      case ir::Op::silu: s.activation = SimpleEpilogue::silu; break;
      default: return s;
    }
    at = i.in[0];
  }
  // Which one is a bias shows only in the strides; an activation fixes which side each stands on.
  if (activated) {
    if (before_activation > 1 || added.size() > 2) return s;
    if (before_activation == 1) s.residual = added[0];
    if (added.size() > before_activation) s.bias = added.back();
    if (before_activation == 0 && added.size() == 2) {
      s.residual = added[0];
      s.activates_last = true;
    }
  } else {
    if (!added.empty()) s.bias = added.back();
    if (added.size() == 2) s.residual = added[0];
  }
  s.valid = true;
  return s;
}

}  // namespace

std::shared_ptr<const Program> load_program(std::span<const std::byte> code, size_t operands, size_t sizes, bool memory_stores) {
  Reader r(code);
  auto out = std::make_shared<Program>();
  Program& p = *out;
  if (r.get<uint32_t>() != fused_magic) fail(Code::format, "fused code has a wrong start");
  p.domain_rank = r.get<uint8_t>();
  p.row_rank = r.get<uint8_t>();
  p.operands = r.get<uint8_t>();
  auto store_count = r.get<uint8_t>();
  auto count = r.get<uint32_t>();
  p.sizes = r.get<uint32_t>();
  if (p.domain_rank < 1 || p.domain_rank > static_cast<int>(max_domain_rank) || p.row_rank < 1 || p.row_rank > p.domain_rank)
    fail(Code::format, "fused code has an impossible domain");
  size_t in_memory = static_cast<size_t>(p.operands) - (memory_stores ? 0 : 1);
  if (p.operands < 1 || store_count < 1 || store_count > p.operands || in_memory != operands || (!memory_stores && store_count != 1))
    fail(Code::format, "fused code has {} operands, its step {}", p.operands, operands);
  if (p.sizes != sizes) fail(Code::format, "fused code reads {} sizes, its step has {}", p.sizes, sizes);
  if (count < 1 || count > 100000) fail(Code::format, "fused code has {} instructions", count);
  for (int k = 0; k < p.operands; ++k) {
    p.memory.push_back(dtype(r.get<uint8_t>()));
    p.gathered.push_back(r.get<uint8_t>());
    class_of(p.memory.back());
    if (p.gathered.back() > max_domain_rank) fail(Code::format, "fused code gathers too many axes");
  }
  for (uint32_t k = 0; k < count; ++k) {
    ProgramInstruction i{};
    auto kind = r.get<uint8_t>();
    if (kind > static_cast<uint8_t>(Kind::reduce)) fail(Code::format, "fused code has an unknown instruction");
    i.kind = static_cast<Kind>(kind);
    i.dtype = dtype(r.get<uint8_t>());
    i.cls = class_of(i.dtype);
    i.op = static_cast<ir::Op>(r.get<uint8_t>());
    auto reduction = r.get<uint8_t>();
    if (reduction > static_cast<uint8_t>(Reduction::argmin)) fail(Code::format, "fused code has an unknown reduction");
    i.reduction = static_cast<Reduction>(reduction);
    i.axis = r.get<uint8_t>();
    i.operand = r.get<uint8_t>();
    auto inputs = r.get<uint8_t>();
    auto guarded = r.get<uint8_t>();
    auto bits = r.get<uint64_t>();
    if (i.cls == Class::f32 || i.cls == Class::f64) {
      std::memcpy(&i.f, &bits, sizeof bits);
    } else {
      std::memcpy(&i.i, &bits, sizeof bits);
    }
    i.size = r.get<uint32_t>();
    for (uint8_t n = 0; n < inputs; ++n) {
      i.in.push_back(r.get<uint32_t>());
      if (i.in.back() >= k) fail(Code::format, "fused code reads a register before it is written");
    }
    for (uint8_t n = 0; n < guarded; ++n) {
      i.lower.push_back(r.get<uint32_t>());
      if (i.lower.back() >= p.sizes) fail(Code::format, "fused code names a size that does not exist");
    }
    switch (i.kind) {
      case Kind::map:
        if (static_cast<size_t>(i.op) >= ir::op_count) fail(Code::format, "fused code has an unknown operation");
        check_map(p, i);
        break;
      case Kind::load:
        if (i.operand >= p.operands - store_count) fail(Code::format, "fused code loads operand {}, which does not exist", i.operand);
        if (i.cls != class_of(p.memory[i.operand])) fail(Code::format, "fused code loads into another type");
        if (i.in.size() != p.gathered[i.operand]) fail(Code::format, "fused code gathers with {} indices", i.in.size());
        for (uint32_t in : i.in) {
          if (p.code[in].cls != Class::i64) fail(Code::format, "fused code gathers with an index that is no integer");
        }
        if (i.lower.size() == 2 * static_cast<size_t>(p.domain_rank)) {
          i.step.assign(i.lower.begin() + p.domain_rank, i.lower.end());
          i.lower.resize(static_cast<size_t>(p.domain_rank));
        }
        if (!i.lower.empty() && (i.lower.size() != static_cast<size_t>(p.domain_rank) || !i.in.empty())) fail(Code::format, "fused code guards a load wrongly");
        break;
      case Kind::accumulator:
        p.has_accumulator = true;
        p.accumulator = i.cls;
        break;
      case Kind::size:
        if (i.size >= p.sizes || i.cls != Class::i64) fail(Code::format, "fused code names a size that does not exist");
        break;
      case Kind::index:
        if (i.axis >= p.domain_rank || i.cls != Class::i64) fail(Code::format, "fused code names an axis that does not exist");
        break;
      case Kind::reduce: {
        p.has_reductions = true;
        if (i.in.size() != 1) fail(Code::format, "fused code reduces {} values", i.in.size());
        Class c = p.code[i.in[0]].cls;
        bool arg = i.reduction == Reduction::argmax || i.reduction == Reduction::argmin;
        bool logic = i.reduction == Reduction::any || i.reduction == Reduction::all;
        if (arg ? i.cls != Class::i64 : logic ? c != Class::b8 || i.cls != Class::b8 : c != i.cls) fail(Code::format, "fused code reduces into another type");
        break;
      }
      case Kind::literal: break;
    }
    p.code.push_back(std::move(i));
  }
  for (uint8_t k = 0; k < store_count; ++k) {
    ProgramStore s{};
    s.operand = r.get<uint8_t>();
    for (int pad = 0; pad < 3; ++pad) r.get<uint8_t>();
    s.reg = r.get<uint32_t>();
    if (s.operand != p.operands - store_count + k || s.reg >= p.code.size()) fail(Code::format, "fused code stores what does not exist");
    if (p.code[s.reg].cls != class_of(p.memory[s.operand])) fail(Code::format, "fused code stores into another type");
    if (p.gathered[s.operand] != 0) fail(Code::format, "fused code scatters");
    p.stores.push_back(s);
  }
  if (!r.done()) fail(Code::format, "fused code has bytes after its end");
  set_stages(p);
  p.simple = find_simple(p);
  return out;
}

namespace {

// Blocks are reused after the last instruction that reads them.
void assign_slots(const Bound& b, Program& p) {
  auto count = static_cast<uint32_t>(p.code.size());
  std::vector<uint32_t> last(count, 0);
  auto reads = [&](uint32_t k, uint32_t in) {
    // Values that cross stages live to the end.
    const bool crosses = p.code[in].stage != p.code[k].stage || (b.reduced > 0 && b.stepped[in] != b.stepped[k]);
    last[in] = crosses ? count : std::max(last[in], k);
  };
  for (uint32_t k = 0; k < count; ++k) {
    if (b.together[k].kind == Together::absorbed) continue;
    if (b.together[k].kind == Together::alone) {
      for (uint32_t in : p.code[k].in) reads(k, in);
    } else {
      for (uint32_t in : b.together[k].in) {
        if (in != Together::none) reads(k, in);
      }
    }
  }
  for (const ProgramStore& s : p.stores) last[s.reg] = count;
  std::vector<int> free;
  std::vector<std::vector<int>> released(count + 1);
  p.slots = 0;
  for (uint32_t k = 0; k < count; ++k) {
    // Not the instruction's own operands: its loops assume that blocks do not overlap.
    if (k > 0) free.insert(free.end(), released[k - 1].begin(), released[k - 1].end());
    ProgramInstruction& i = p.code[k];
    if (i.kind == Kind::reduce && b.reduced > 0) {  // it lives from the first place to the end
      i.slot = p.slots++;
      continue;
    }
    bool number = i.kind == Kind::literal || i.kind == Kind::size || i.kind == Kind::reduce || i.kind == Kind::accumulator;
    if (number || b.uniform[k] || b.together[k].kind == Together::absorbed) continue;
    if (free.empty()) {
      i.slot = p.slots++;
    } else {
      i.slot = free.back();
      free.pop_back();
    }
    released[std::max(last[k], k)].push_back(i.slot);
  }
}

// What has to be done for a block, and what once is enough.
void list_work(Bound& b, const Program& p, std::span<const TensorRef> operands) {
  b.straight.assign(p.code.size(), 0);
  for (uint32_t k = 0; k < p.code.size(); ++k) {
    const ProgramInstruction& i = p.code[k];
    if (i.kind == Kind::literal || i.kind == Kind::size || b.together[k].kind == Together::absorbed) continue;
    b.active.push_back(k);
    if (i.kind == Kind::reduce) b.reductions.push_back(k);
    bool fixed = false;
    if (i.kind == Kind::load) {
      DType t = operands[i.operand].dtype;
      bool same = t == DType::f32 || t == DType::f64 || t == DType::i64;
      const bool beside = b.strides[i.operand].back() == 1;
      if (p.row_rank == 1 && i.in.empty() && same) {
        if (i.lower.empty() && (b.uniform[k] || beside)) b.straight[k] = Bound::always;
        if (!i.lower.empty() && beside && b.step[k].back() == 1) b.straight[k] = Bound::inside;
      }
      fixed = b.straight[k] == Bound::always;
      for (int a = 0; a < p.domain_rank - p.row_rank; ++a) fixed = fixed && b.strides[i.operand][static_cast<size_t>(a)] == 0;
    }
    if (!fixed) b.each_row.push_back(k);
  }
}

bool names_axis(const Program& p, int axis) {
  for (const ProgramInstruction& i : p.code) {
    if (i.kind == Kind::index && i.axis == axis) return true;
    if (!i.lower.empty()) return true;
  }
  return false;
}

// Merges neighbouring axes (inside the row and inside the outer ones) that every operand walks as one.
void merge_axes(Bound& b, Program& p) {
  for (int a = p.domain_rank - 1; a > 0; --a) {
    bool row = a >= p.domain_rank - p.row_rank, previous_row = a - 1 >= p.domain_rank - p.row_rank;
    // Without reductions the split into outer and row means nothing.
    if (row != previous_row && p.has_reductions) continue;
    if (names_axis(p, a) || names_axis(p, a - 1)) continue;
    auto i = static_cast<size_t>(a);
    bool fits = true;
    for (size_t k = 0; k < b.strides.size() && fits; ++k) {
      bool uniform_here = b.strides[k][i] == 0, uniform_before = b.strides[k][i - 1] == 0;
      bool whole = b.domain[i] == 1 || b.domain[i - 1] == 1;
      fits = whole || (uniform_here && uniform_before) || (b.strides[k][i - 1] == b.strides[k][i] * b.domain[i]);
      if (whole && !(uniform_here && uniform_before)) fits = fits && p.gathered[k] == 0;
    }
    if (!fits) continue;
    for (size_t k = 0; k < b.strides.size(); ++k) {
      int64_t stride = b.domain[i] == 1 ? b.strides[k][i - 1] : b.strides[k][i];
      b.strides[k][i - 1] = stride;
      b.strides[k].erase(b.strides[k].begin() + a);
      b.dims[k][i - 1] = stride == 0 ? 1 : b.domain[i - 1] * b.domain[i];
      b.dims[k].erase(b.dims[k].begin() + a);
    }
    b.domain[i - 1] *= b.domain[i];
    b.domain.erase(b.domain.begin() + a);
    for (ProgramInstruction& x : p.code) {
      if (x.kind == Kind::index && x.axis > a - 1) --x.axis;
    }
    --p.domain_rank;
    if (row && previous_row) --p.row_rank;
    if (row && !previous_row) p.row_rank = std::max(1, p.row_rank);
  }
}

}  // namespace

Bound bind_program(std::shared_ptr<const Program> program, std::span<const TensorRef> operands, std::span<const int64_t> sizes, std::vector<int64_t> domain, bool may_merge) {
  Bound b;
  const Program& given = *program;
  if (domain.size() != static_cast<size_t>(given.domain_rank)) fail(Code::format, "fused step has a domain of rank {}, its code {}", domain.size(), given.domain_rank);
  b.domain = std::move(domain);
  int64_t elements = 1;
  for (int64_t n : b.domain) {
    if (n < 0 || __builtin_mul_overflow(elements, std::max<int64_t>(n, 1), &elements) || elements > (int64_t{1} << 42)) fail(Code::format, "a fused step has an impossible domain");
  }
  b.sizes.assign(sizes.begin(), sizes.end());
  for (size_t k = 0; k < operands.size(); ++k) {
    const TensorRef& t = operands[k];
    if (t.dtype != given.memory[k]) fail(Code::format, "operand {} of a fused step is {}, its code says {}", k, ir::name_of(t.dtype), ir::name_of(given.memory[k]));
    if (t.rank != given.domain_rank + given.gathered[k]) fail(Code::format, "operand {} of a fused step has rank {}", k, t.rank);
    b.dims.emplace_back(t.dims, t.dims + t.rank);
    b.strides.emplace_back(t.strides, t.strides + t.rank);
  }
  // Extents: the whole domain, or one element for all of an axis. Guarded loads may be any size: they are checked element by element.
  std::vector<uint8_t> guarded(operands.size(), 0);
  for (const ProgramInstruction& i : given.code) {
    if (i.kind == Kind::load) guarded[i.operand] |= i.lower.empty() ? 1 : 2;
    std::vector<int64_t> lower, step(i.lower.size(), 1);
    for (uint32_t s : i.lower) lower.push_back(b.sizes[s]);
    for (size_t d = 0; d < i.step.size(); ++d) step[d] = b.sizes[i.step[d]];
    for (int64_t s : step) {
      if (s < 1 || s > max_guard_step) fail(Code::format, "a fused step goes {} elements at a time", s);
    }
    b.lower.push_back(std::move(lower));
    b.step.push_back(std::move(step));
  }
  for (size_t k = 0; k < operands.size(); ++k) {
    bool written = k + given.stores.size() >= static_cast<size_t>(given.operands);
    for (int a = 0; a < given.domain_rank; ++a) {
      auto d = static_cast<size_t>(a);
      if (guarded[k] == 2) continue;
      bool all = b.dims[k][d] == b.domain[d], one = b.dims[k][d] == 1;
      if (!all && !one) fail(Code::format, "operand {} of a fused step has size {} on axis {} of size {}", k, b.dims[k][d], a, b.domain[d]);
      if (!all) b.strides[k][d] = 0;
      bool row = a >= given.domain_rank - given.row_rank;
      if (written && !all && !row) fail(Code::format, "a fused step writes one element several times");
    }
  }
  // Stores of the row: all of it, or once.
  for (const ProgramStore& s : given.stores) {
    if (s.operand >= operands.size()) continue;
    bool once = true, all = true;
    for (int a = given.domain_rank - given.row_rank; a < given.domain_rank; ++a) {
      auto d = static_cast<size_t>(a);
      once = once && b.dims[s.operand][d] == 1;
      all = all && b.dims[s.operand][d] == b.domain[d];
    }
    if (!once && !all) fail(Code::format, "a fused step writes a part of its rows");
  }
  auto own = std::make_shared<Program>(given);
  if (may_merge) {
    merge_axes(b, *own);
    turn_to_columns(b, *own);
  }
  const Program& p = *own;
  // The same along the row?
  b.uniform.assign(p.code.size(), 1);
  for (size_t k = 0; k < p.code.size(); ++k) {
    const ProgramInstruction& i = p.code[k];
    bool uniform = true;
    for (uint32_t in : i.in) uniform = uniform && b.uniform[in];
    if (i.kind == Kind::reduce) uniform = b.reduced == 0;
    if (i.kind == Kind::accumulator) uniform = false;
    if (i.kind == Kind::index) uniform = i.axis < p.domain_rank - p.row_rank;
    if (i.kind == Kind::load) {
      for (int a = p.domain_rank - p.row_rank; a < p.domain_rank; ++a) {
        auto d = static_cast<size_t>(a);
        uniform = uniform && (b.strides[i.operand][d] == 0 || b.domain[d] == 1) && i.lower.empty();
      }
    }
    b.uniform[k] = uniform;
  }
  find_together(b, p);
  assign_slots(b, *own);
  list_work(b, p, operands);
  for (uint32_t k : b.reduced > 0 ? std::exchange(b.active, {}) : std::vector<uint32_t>()) (b.stepped[k] != 0 ? b.each_step : b.active).push_back(k);
  int64_t row = 1;
  for (int a = p.domain_rank - p.row_rank; a < p.domain_rank; ++a) row *= b.domain[static_cast<size_t>(a)];
  // Whole rows where the blocks stay inside the second-level cache; else blocks of 512, reloaded per stage.
  int64_t block = std::min<int64_t>(row, 512);
  if (p.has_reductions && b.reduced == 0 && row * std::max(p.slots, 1) * 8 <= 256 * 1024) block = row;
  b.block = static_cast<size_t>((std::max<int64_t>(block, 1) + 63) / 64 * 64);
  b.scratch = (p.code.size() * 48 + 127) / 64 * 64 + static_cast<size_t>(p.slots) * b.block * 8 + 64;
  // A map whose only use is one contiguous store of its own type writes there.
  b.in_place.assign(p.code.size(), 0);
  for (size_t s = 0; s < p.stores.size(); ++s) {
    const ProgramStore& st = p.stores[s];
    if (st.operand >= operands.size()) continue;
    const ProgramInstruction& i = p.code[st.reg];
    DType m = p.memory[st.operand];
    bool same = m == DType::f32 || m == DType::f64 || m == DType::i64 || m == DType::b8;
    int uses = 0;
    for (const ProgramInstruction& other : p.code) uses += static_cast<int>(std::count(other.in.begin(), other.in.end(), st.reg));
    for (const ProgramStore& other : p.stores) uses += other.reg == st.reg;
    bool contiguous = p.row_rank == 1 && b.strides[st.operand].back() == 1;
    // The last instruction, so that nothing is read afterwards from memory that the store may share.
    bool last = st.reg + 1 == p.code.size();
    if (i.kind == Kind::map && same && last && uses == 1 && contiguous && !b.uniform[st.reg] && i.op != ir::Op::cast) b.in_place[st.reg] = static_cast<uint8_t>(s + 1);
  }
  b.program = std::move(own);
  return b;
}

}  // namespace ingot::kernels
