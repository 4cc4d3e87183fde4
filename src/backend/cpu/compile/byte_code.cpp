#include "backend/cpu/compile/byte_code.h"

#include <cstring>

#include "base/error.h"
#include "kernels/fused/run/fused_args.h"

namespace ingot::backend::cpu {

using ir::DType;

namespace {

class Emitter {
 public:
  Emitter(const FusedBody& body, bool in_order) : b_(body), in_order_(in_order) {}

  Emitted run() {
    std::vector<uint8_t> gathered(b_.operands.size(), 0);
    for (const Instruction& i : b_.code) {
      if (i.kind == Instruction::Kind::load) gathered[i.operand] = static_cast<uint8_t>(i.in.size());
    }
    size_t rank = b_.outer.size() + b_.row.size();
    if (rank > kernels::max_domain_rank || b_.operands.size() > kernels::max_operands) {
      fail(Code::unsupported, "an expression of {} axes and {} operands; {} and {} are possible", rank, b_.operands.size(), kernels::max_domain_rank, kernels::max_operands);
    }
    for (const Instruction& i : b_.code) instruction(i);
    for (const Store& s : b_.stores) {
      put(static_cast<uint8_t>(s.operand));
      for (int pad = 0; pad < 3; ++pad) put(uint8_t{0});
      put(s.value);
    }
    // The head is written last, because it contains the number of sizes.
    std::vector<std::byte> tail = std::move(out_.code);
    out_.code.clear();
    put(kernels::fused_magic);
    put(static_cast<uint8_t>(rank));
    put(static_cast<uint8_t>(b_.row.size() | (in_order_ ? kernels::fused_in_order : 0)));
    put(static_cast<uint8_t>(b_.operands.size()));
    put(static_cast<uint8_t>(b_.stores.size()));
    put(static_cast<uint32_t>(b_.code.size()));
    put(static_cast<uint32_t>(out_.sizes.size()));
    for (size_t k = 0; k < b_.operands.size(); ++k) {
      put(static_cast<uint8_t>(b_.operands[k]));
      put(gathered[k]);
    }
    out_.code.insert(out_.code.end(), tail.begin(), tail.end());
    return std::move(out_);
  }

 private:
  template <class T>
  void put(T v) {
    size_t at = out_.code.size();
    out_.code.resize(at + sizeof v);
    std::memcpy(out_.code.data() + at, &v, sizeof v);
  }

  uint32_t size(const ir::Dim& d) {
    for (size_t k = 0; k < out_.sizes.size(); ++k) {
      if (out_.sizes[k] == d) return static_cast<uint32_t>(k);
    }
    out_.sizes.push_back(d);
    return static_cast<uint32_t>(out_.sizes.size() - 1);
  }

  void instruction(const Instruction& i) {
    put(static_cast<uint8_t>(i.kind));
    put(static_cast<uint8_t>(i.dtype));
    put(static_cast<uint8_t>(i.op));
    put(static_cast<uint8_t>(i.reduction));
    put(static_cast<uint8_t>(i.axis));
    put(static_cast<uint8_t>(i.operand));
    put(static_cast<uint8_t>(i.in.size()));
    put(static_cast<uint8_t>(i.lower.size() + i.step.size()));
    uint64_t bits = 0;
    if (i.kind == Instruction::Kind::literal || (i.kind == Instruction::Kind::load && !i.lower.empty())) {
      if (is_float(i.dtype)) {
        double v = i.number.to_double();
        std::memcpy(&bits, &v, sizeof bits);
      } else {
        int64_t v = i.number.to_int();
        std::memcpy(&bits, &v, sizeof bits);
      }
    }
    put(bits);
    put(i.kind == Instruction::Kind::size ? size(i.dim) : uint32_t{0});
    for (Reg r : i.in) put(r);
    for (const ir::Dim& d : i.lower) put(size(d));
    for (int64_t s : i.step) put(size(s));
  }

  const FusedBody& b_;
  bool in_order_;
  Emitted out_;
};

}  // namespace

Emitted emit(const FusedBody& body, bool in_order) { return Emitter(body, in_order).run(); }

}  // namespace ingot::backend::cpu
