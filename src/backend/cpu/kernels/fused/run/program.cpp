#include "backend/cpu/kernels/fused/run/program.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "ir/scalar_functions.h"
#include "kernels/fused/run/fused_args.h"

namespace ingot::kernels {

using ir::DType;

namespace {

// The class in which code is checked: every integer as i64.
Class wide_class(DType t) {
  const Class c = class_of(t);
  return is_integer(c) ? Class::i64 : c;
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
  if (v >= ir::dtype_count || !is_canonical(static_cast<ir::DType>(v))) fail(Code::format, "fused code names an unknown dtype");
  return static_cast<DType>(v);
}

// True if the primitive is defined for this class of numbers.
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

// Checks the classes of a map's operands and result.
void check_map(const Program& p, const ProgramInstruction& i) {
  if (!ir::is_map(i.op)) fail(Code::format, "fused code maps with {}", ir::name_of(i.op));
  if (static_cast<int>(i.in.size()) != ir::arity_of(i.op)) fail(Code::format, "fused code gives {} {} operands", ir::name_of(i.op), i.in.size());
  auto cls = [&](size_t k) { return p.code[i.in[k]].cls; };
  bool good = true;
  if (i.op == ir::Op::select) {
    good = cls(0) == Class::b8 && cls(1) == cls(2) && cls(1) == i.cls;
  } else if (i.op == ir::Op::cast) {
  } else if (i.op == ir::Op::bitcast) {
    good = ir::has_bits_of(i.dtype, p.code[i.in[0]].dtype);
  } else if (ir::result_of(i.op) == ir::ResultType::boolean) {
    good = i.cls == Class::b8 && (i.in.size() < 2 || cls(0) == cls(1)) && (i.op != ir::Op::logical_not || cls(0) == Class::b8);
  } else {
    for (size_t k = 0; k < i.in.size(); ++k) good = good && cls(k) == i.cls;
  }
  const bool is_same = ir::result_of(i.op) == ir::ResultType::same || ir::result_of(i.op) == ir::ResultType::first;
  if (good && i.op != ir::Op::select && is_same) good = has_meaning(i.op, i.cls);
  if (!good) fail(Code::format, "fused code mixes types in {}", ir::name_of(i.op));
}

// Sets each instruction's stage: the number of reductions that must be complete before it.
void set_stages(Program& p) {
  for (ProgramInstruction& i : p.code) {
    for (uint32_t in : i.in) i.stage = std::max(i.stage, p.code[in].stage + (p.code[in].kind == Kind::reduce));
    p.stages = std::max(p.stages, i.stage + 1);
  }
}

// Makes the address offset of a load's indices an instruction of its own (`place`), computed once for several loads.
void take_places_out(Program& p) {
  std::vector<ProgramInstruction> code;
  std::vector<uint32_t> now;
  for (ProgramInstruction& i : p.code) {
    for (uint32_t& in : i.in) in = now[in];
    if (i.kind == Kind::load && !i.in.empty()) {
      ProgramInstruction place{};
      place.kind = Kind::place;
      place.dtype = DType::i64;
      place.cls = Class::i64;
      place.operand = i.operand;
      place.in = std::move(i.in);
      for (size_t k = 0; k < place.in.size(); ++k) place.axes.push_back(static_cast<uint8_t>(k));
      i.in = {static_cast<uint32_t>(code.size())};
      code.push_back(std::move(place));
    }
    now.push_back(static_cast<uint32_t>(code.size()));
    code.push_back(std::move(i));
  }
  p.code = std::move(code);
  for (ProgramStore& s : p.stores) s.reg = now[s.reg];
}

// The value of an f32 literal.
std::optional<float> number_at(const Program& p, uint32_t at) {
  const ProgramInstruction& i = p.code[at];
  return i.kind == Kind::literal && i.cls == Class::f32 ? std::optional(static_cast<float>(i.f)) : std::nullopt;
}

// A commutative f32 map with one literal operand: returns it, and sets `other` to the other operand.
std::optional<float> number_operand(const Program& p, uint32_t at, ir::Op op, uint32_t& other) {
  const ProgramInstruction& i = p.code[at];
  if (i.kind != Kind::map || i.op != op || i.dtype != DType::f32) return std::nullopt;
  for (size_t k : {size_t{0}, size_t{1}}) {
    if (const auto number = number_at(p, i.in[k])) {
      other = i.in[1 - k];
      return number;
    }
  }
  return std::nullopt;
}

// Matches x * clamp(x + shift, low, high), optionally divided by a number; x in `of`.
std::optional<HardSwish> hard_swish(const Program& p, uint32_t at, uint32_t& of) {
  HardSwish out;
  const ProgramInstruction& last = p.code[at];
  if (last.kind == Kind::map && last.op == ir::Op::div && last.dtype == DType::f32) {
    const auto by = number_at(p, last.in[1]);
    if (!by || *by == 0) return std::nullopt;
    out.factor = 1 / *by;
    at = last.in[0];
  }
  const ProgramInstruction& product = p.code[at];
  if (product.kind != Kind::map || product.op != ir::Op::mul || product.dtype != DType::f32) return std::nullopt;
  for (size_t k : {size_t{0}, size_t{1}}) {
    uint32_t below = 0, sum = 0, x = 0;
    const auto high = number_operand(p, product.in[k], ir::Op::min, below);
    const auto low = high ? number_operand(p, below, ir::Op::max, sum) : std::nullopt;
    const auto shift = low ? number_operand(p, sum, ir::Op::add, x) : std::nullopt;
    if (!shift || x != product.in[1 - k]) continue;
    out.shift = *shift, out.low = *low, out.high = *high;
    of = x;
    return out;
  }
  return std::nullopt;
}

// Matches x > 0 ? x : x * slope, with x in `of`. `is_load`: true for a load that an epilogue may have.
template <class IsLoad>
bool leaky(const Program& p, uint32_t at, IsLoad is_load, uint32_t& of, SimpleEpilogue& s) {
  const ProgramInstruction& select = p.code[at];
  if (select.kind != Kind::map || select.op != ir::Op::select || select.dtype != DType::f32) return false;
  const ProgramInstruction &test = p.code[select.in[0]], &product = p.code[select.in[2]];
  const uint32_t x = select.in[1];
  if (test.kind != Kind::map || test.op != ir::Op::gt || test.in[0] != x || number_at(p, test.in[1]) != 0.0f) return false;
  if (product.kind != Kind::map || product.op != ir::Op::mul || product.dtype != DType::f32) return false;
  const bool first = product.in[0] == x;
  const uint32_t slope = product.in[first ? 1 : 0];
  if (product.in[first ? 0 : 1] != x) return false;
  if (const auto number = number_at(p, slope)) {
    s.slope = *number;
  } else if (is_load(slope) && p.memory[p.code[slope].operand] == DType::f32) {
    s.slope_operand = p.code[slope].operand;
  } else {
    return false;
  }
  of = x;
  return true;
}

// Matches an activation of f32: sets it in `s` and returns its operand. `is_load`: true for a load that an epilogue may have.
template <class IsLoad>
std::optional<uint32_t> activation(const Program& p, uint32_t at, IsLoad is_load, SimpleEpilogue& s) {
  uint32_t of = 0;
  if (const auto found = hard_swish(p, at, of)) {
    s.activation = SimpleEpilogue::hard_swish;
    s.hard_swish_by = *found;
    return of;
  }
  if (leaky(p, at, is_load, of, s)) {
    s.activation = SimpleEpilogue::leaky;
    return of;
  }
  // min(high, max(low, x)), with the literals first.
  auto is_bounded = [&](const ProgramInstruction& x, ir::Op op) { return x.kind == Kind::map && x.op == op && x.dtype == DType::f32 && p.code[x.in[0]].kind == Kind::literal; };
  const ProgramInstruction& i = p.code[at];
  if (is_bounded(i, ir::Op::min) && is_bounded(p.code[i.in[1]], ir::Op::max)) {
    const ProgramInstruction& below = p.code[i.in[1]];
    s.activation = SimpleEpilogue::clamp;
    s.low = static_cast<float>(p.code[below.in[0]].f);
    s.high = static_cast<float>(p.code[i.in[0]].f);
    return below.in[1];
  }
  switch (i.op) {
    case ir::Op::relu: s.activation = SimpleEpilogue::relu; break;
    case ir::Op::gelu: s.activation = SimpleEpilogue::gelu; break;
    case ir::Op::gelu_tanh: s.activation = SimpleEpilogue::gelu_tanh; break;
    case ir::Op::silu: s.activation = SimpleEpilogue::silu; break;
    default: return std::nullopt;
  }
  return i.in[0];
}

SimpleEpilogue find_simple(const Program& p) {
  SimpleEpilogue s;
  if (p.stores.size() != 1 || !p.has_accumulator || p.has_reductions) return s;
  s.type = p.memory[p.stores[0].operand];
  if (s.type != DType::f32 && s.type != DType::f16 && s.type != DType::bf16) return s;
  // Walk backwards from the store: [+ residual] [activation] [+ bias] [scale *] accumulator, or activation [+ residual] [+ bias] ...
  uint32_t at = p.stores[0].reg;
  auto plain_load = [&](uint32_t k) {
    const ProgramInstruction& i = p.code[k];
    return i.kind == Kind::load && i.in.empty() && i.lower.empty() && (p.memory[i.operand] == DType::f32 || p.memory[i.operand] == s.type);
  };
  std::vector<int> added;  // outermost first
  bool activated = false;
  size_t before_activation = 0;
  while (p.code[at].kind != Kind::accumulator) {
    const ProgramInstruction& i = p.code[at];
    if (i.kind != Kind::map || i.dtype != DType::f32) return s;
    if (i.op == ir::Op::add) {
      uint32_t other = plain_load(i.in[0]) ? i.in[0] : i.in[1], next = plain_load(i.in[0]) ? i.in[1] : i.in[0];
      if (!plain_load(other) || added.size() == 2) return s;
      added.push_back(p.code[other].operand);
      at = next;
      continue;
    }
    if (const auto of = activated ? std::nullopt : activation(p, at, plain_load, s)) {
      activated = true;
      before_activation = added.size();
      at = *of;
      continue;
    }
    if (i.op != ir::Op::mul) return s;
    const bool first = p.code[i.in[0]].kind == Kind::accumulator;
    const uint32_t factor = i.in[first ? 1 : 0];
    if (p.code[i.in[first ? 0 : 1]].kind != Kind::accumulator || !plain_load(factor)) return s;
    s.scale = p.code[factor].operand;
    break;
  }
  // Only strides tell which sum is the bias. An activation fixes on which side of it each sum is.
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

// The next instruction of the program, which may read those before it.
ProgramInstruction read_instruction(Reader& r, const Program& p) {
  ProgramInstruction i{};
  auto kind = r.get<uint8_t>();
  if (kind > static_cast<uint8_t>(Kind::reduce)) fail(Code::format, "fused code has an unknown instruction");
  i.kind = static_cast<Kind>(kind);
  i.dtype = dtype(r.get<uint8_t>());
  i.cls = wide_class(i.dtype);
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
    if (i.in.back() >= p.code.size()) fail(Code::format, "fused code reads a register before it is written");
  }
  for (uint8_t n = 0; n < guarded; ++n) {
    i.lower.push_back(r.get<uint32_t>());
    if (i.lower.back() >= p.sizes) fail(Code::format, "fused code names a size that does not exist");
  }
  return i;
}

// Checks an instruction after those of the program; notes what it says of the program. `stores`: how many operands are stored.
void check_instruction(ProgramInstruction& i, Program& p, int stores) {
  switch (i.kind) {
    case Kind::map:
      if (static_cast<size_t>(i.op) >= ir::op_count) fail(Code::format, "fused code has an unknown operation");
      check_map(p, i);
      break;
    case Kind::load:
      if (i.operand >= p.operands - stores) fail(Code::format, "fused code loads operand {}, which does not exist", i.operand);
      if (i.cls != wide_class(p.memory[i.operand])) fail(Code::format, "fused code loads into another type");
      if (i.in.size() != p.gathered[i.operand]) fail(Code::format, "fused code gathers with {} indices", i.in.size());
      for (uint32_t in : i.in) {
        if (p.code[in].cls != Class::i64) fail(Code::format, "fused code gathers with an index that is not an integer");
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
    case Kind::literal:
    case Kind::place: break;
  }
}

}  // namespace

std::shared_ptr<const Program> load_program(std::span<const std::byte> code, size_t operands, size_t sizes, bool memory_stores) {
  Reader r(code);
  auto out = std::make_shared<Program>();
  Program& p = *out;
  if (r.get<uint32_t>() != fused_magic) fail(Code::format, "fused code has a wrong start");
  p.domain_rank = r.get<uint8_t>();
  const auto row_rank = r.get<uint8_t>();
  p.in_order = (row_rank & fused_in_order) != 0;
  p.row_rank = row_rank & ~fused_in_order;
  p.operands = r.get<uint8_t>();
  auto store_count = r.get<uint8_t>();
  auto count = r.get<uint32_t>();
  p.sizes = r.get<uint32_t>();
  if (p.domain_rank < 1 || p.domain_rank > static_cast<int>(max_domain_rank) || p.row_rank < 1 || p.row_rank > p.domain_rank)
    fail(Code::format, "fused code has an impossible domain");
  size_t in_memory = static_cast<size_t>(p.operands) - (memory_stores ? 0 : 1);
  const bool has_stores = store_count >= 1 && store_count <= p.operands && (memory_stores || store_count == 1);
  if (p.operands < 1 || !has_stores || in_memory != operands) fail(Code::format, "fused code has {} operands, its step {}", p.operands, operands);
  if (p.sizes != sizes) fail(Code::format, "fused code reads {} sizes, its step has {}", p.sizes, sizes);
  if (count < 1 || count > 100000) fail(Code::format, "fused code has {} instructions", count);
  for (int k = 0; k < p.operands; ++k) {
    p.memory.push_back(dtype(r.get<uint8_t>()));
    p.gathered.push_back(r.get<uint8_t>());
    wide_class(p.memory.back());
    if (p.gathered.back() > max_domain_rank) fail(Code::format, "fused code gathers too many axes");
  }
  for (uint32_t k = 0; k < count; ++k) {
    ProgramInstruction i = read_instruction(r, p);
    check_instruction(i, p, store_count);
    p.code.push_back(std::move(i));
  }
  for (uint8_t k = 0; k < store_count; ++k) {
    ProgramStore s{};
    s.operand = r.get<uint8_t>();
    for (int pad = 0; pad < 3; ++pad) r.get<uint8_t>();
    s.reg = r.get<uint32_t>();
    if (s.operand != p.operands - store_count + k || s.reg >= p.code.size()) fail(Code::format, "fused code stores what does not exist");
    if (p.code[s.reg].cls != wide_class(p.memory[s.operand])) fail(Code::format, "fused code stores into another type");
    if (p.gathered[s.operand] != 0) fail(Code::format, "fused code scatters");
    p.stores.push_back(s);
  }
  if (!r.done()) fail(Code::format, "fused code has bytes after its end");
  take_places_out(p);
  narrow_integers(p);
  set_stages(p);
  p.simple = find_simple(p);
  return out;
}

}  // namespace ingot::kernels
