// Gives each integer of a program the class in which it is computed.
#include <algorithm>
#include <map>

#include "backend/cpu/kernels/fused/run/program.h"
#include "backend/cpu/kernels/fused/run/tuning.h"
#include "base/error.h"

namespace ingot::kernels {

using ir::DType;

Class class_of(DType t) {
  switch (t) {
    case DType::b8: return Class::b8;
    case DType::u8: return Class::u8;
    case DType::i8: return Class::i8;
    case DType::i16: return Class::i16;
    case DType::i32: return Class::i32;
    case DType::i64: return Class::i64;
    case DType::f64: return Class::f64;
    case DType::f32:
    case DType::f16:
    case DType::bf16: return Class::f32;
    default: fail(Code::format, "fused code computes in a complex type");
  }
}

DType dtype_of(Class c) {
  static constexpr DType types[] = {DType::b8, DType::u8, DType::i8, DType::i16, DType::i32, DType::i64, DType::f32, DType::f64};
  return types[static_cast<size_t>(c)];
}

void load_i64(DType memory, int64_t* to, const void* from, int64_t stride, int64_t n) {
  constexpr int64_t capacity = fused_tuning::widened_elements;
  int64_t given[capacity];  // in their own type
  const auto size = static_cast<int64_t>(ir::size_of(memory));
  if (memory == DType::i64) return block_ops().load(memory, to, from, stride, n);
  for (int64_t done = 0; done < n; done += capacity) {
    const int64_t count = std::min(capacity, n - done);
    block_ops().load(memory, given, static_cast<const std::byte*>(from) + done * stride * size, stride, count);
    block_ops().cast(class_of(memory), DType::i64, to + done, {given, false}, count);
  }
}

namespace {

// The integers that have the bits of floats of a type.
Class bits_of(DType t) { return ir::size_of(t) == 2 ? Class::i16 : ir::size_of(t) == 4 ? Class::i32 : Class::i64; }

class Narrower {
 public:
  explicit Narrower(Program& p) : p_(p) {}

  void run() {
    const std::vector<uint8_t> rounds = rounded_by_store();
    for (uint32_t k = 0; k < p_.code.size(); ++k) {
      ProgramInstruction& i = p_.code[k];
      for (uint32_t& in : i.in) in = now_[in];
      if (rounds[k] != 0) {
        now_.push_back(i.in[0]);
        continue;
      }
      set_class(i);
      const DType type = i.dtype;
      const bool wraps = (i.kind == Kind::accumulator || i.kind == Kind::reduce) && is_integer(i.cls);
      const uint32_t reg = push(std::move(i));
      now_.push_back(wraps ? as(reg, class_of(type)) : reg);
    }
    for (ProgramStore& s : p_.stores) {
      s.reg = now_[s.reg];
      if (is_integer(code_[s.reg].cls)) s.reg = as(s.reg, class_of(p_.memory[s.operand]));
    }
    p_.code = std::move(code_);
  }

 private:
  // Casts of floats to a half type that are only stored as such: the store rounds.
  std::vector<uint8_t> rounded_by_store() const {
    std::vector<uint8_t> rounds(p_.code.size(), 0);
    for (const ProgramStore& s : p_.stores) {
      const ProgramInstruction& i = p_.code[s.reg];
      const bool half = i.dtype == DType::f16 || i.dtype == DType::bf16;
      if (i.kind == Kind::map && i.op == ir::Op::cast && half && i.dtype == p_.memory[s.operand] && p_.code[i.in[0]].cls == Class::f32) rounds[s.reg] = 1;
    }
    for (const ProgramStore& s : p_.stores) {
      if (p_.memory[s.operand] != p_.code[s.reg].dtype) rounds[s.reg] = 0;
    }
    for (const ProgramInstruction& i : p_.code) {
      for (uint32_t in : i.in) rounds[in] = 0;
    }
    return rounds;
  }

  uint32_t push(ProgramInstruction i) {
    code_.push_back(std::move(i));
    return static_cast<uint32_t>(code_.size() - 1);
  }

  // An integer in a class.
  uint32_t as(uint32_t reg, Class c) {
    if (code_[reg].cls == c) return reg;
    const auto [found, is_new] = converted_.try_emplace({reg, c}, 0);
    if (!is_new) return found->second;
    ProgramInstruction i{};
    if (code_[reg].kind == Kind::literal) {
      i = code_[reg];
    } else {
      i.kind = Kind::map;
      i.op = ir::Op::cast;
      i.in = {reg};
    }
    i.dtype = dtype_of(c);
    i.cls = c;
    return found->second = push(std::move(i));
  }

  void convert(ProgramInstruction& i, size_t first, Class c) {
    for (size_t k = first; k < i.in.size(); ++k) i.in[k] = as(i.in[k], c);
  }

  void set_class(ProgramInstruction& i) {
    auto of = [&](size_t k) { return code_[i.in[k]].cls; };
    switch (i.kind) {
      case Kind::load: i.cls = class_of(p_.memory[i.operand]); return;
      case Kind::literal: i.cls = class_of(i.dtype); return;
      case Kind::place: return convert(i, 0, Class::i64);
      case Kind::reduce:
        if (is_integer(of(0))) convert(i, 0, Class::i64);
        return;
      case Kind::map: break;
      default: return;
    }
    if (i.op == ir::Op::cast) {
      i.cls = class_of(i.dtype);
    } else if (i.op == ir::Op::bitcast) {
      if (is_integer(of(0))) convert(i, 0, bits_of(i.dtype));
      i.cls = class_of(i.dtype);
    } else if (i.op == ir::Op::select) {
      if (is_integer(i.cls)) i.cls = class_of(i.dtype), convert(i, 1, i.cls);
    } else if (i.cls == Class::b8 && is_integer(of(0))) {  // a test
      const bool own = is_native(i.op) && (i.in.size() < 2 || of(0) == of(1));
      if (!own) convert(i, 0, Class::i64);
    } else if (is_integer(i.cls)) {
      if (is_native(i.op)) i.cls = class_of(i.dtype);
      convert(i, 0, i.cls);
    }
  }

  Program& p_;
  std::vector<ProgramInstruction> code_;
  std::vector<uint32_t> now_;  // per old instruction
  std::map<std::pair<uint32_t, Class>, uint32_t> converted_;
};

}  // namespace

void narrow_integers(Program& p) { Narrower(p).run(); }

}  // namespace ingot::kernels
