// Parses the bytes of a body, which are not trusted.
#include <algorithm>

#include "backend/reference/run/scalar.h"
#include "base/error.h"

namespace ingot::backend::reference {

using ir::DType;

namespace {

[[noreturn]] void refuse(const char* what) { fail(Code::format, "the body of a step {}", what); }

bool known(DType t) { return static_cast<int>(t) < ir::dtype_count && is_canonical(t); }

class Checker {
 public:
  Checker(Body& body, size_t operands, size_t sizes, Stores stores) : b_(body), operands_(operands), sizes_(sizes), in_memory_(stores == Stores::memory) {}

  void run() {
    constexpr uint32_t limit = kernels::max_rank;
    if (b_.row < 1 || b_.outer > limit || b_.row > limit || b_.rank() > limit) refuse("has an impossible domain");
    if (b_.sizes != sizes_ || b_.sizes < b_.rank()) refuse("has another number of sizes than its step");
    if (b_.operands.size() != operands_ + (in_memory_ ? 0 : 1)) refuse("has another number of operands than its step");
    if (b_.stores.empty() || b_.stores.size() > b_.operands.size() || (!in_memory_ && b_.stores.size() != 1)) refuse("has an impossible number of stores");
    if (b_.code.empty()) refuse("computes nothing");
    for (DType t : b_.operands) {
      if (!known(t)) refuse("has an operand of an unknown type");
    }
    const size_t count = b_.operands.size();
    b_.gathered.assign(count, 0);
    b_.plain.assign(count, false);
    b_.guarded.assign(count, false);
    b_.stage.assign(b_.code.size(), 0);
    for (size_t k = 0; k < b_.code.size(); ++k) instruction(k);
    for (size_t k = 0; k < b_.stores.size(); ++k) {
      const Store& s = b_.stores[k];
      if (s.operand != count - b_.stores.size() + k || s.value >= b_.code.size()) refuse("stores what does not exist");
      if (is_float(b_.code[s.value].dtype) != is_float(b_.operands[s.operand])) refuse("stores into another type");
    }
  }

 private:
  void instruction(size_t k) {
    const Instruction& i = b_.code[k];
    if (i.kind > Kind::reduce || i.reduction > Reduction::argmin || static_cast<size_t>(i.op) >= ir::op_count || !known(i.dtype)) refuse("has an unknown instruction");
    for (uint32_t in : i.in) {
      if (in >= k) refuse("reads a value before it is computed");
      b_.stage[k] = std::max(b_.stage[k], b_.stage[in] + (b_.code[in].kind == Kind::reduce));
    }
    switch (i.kind) {
      case Kind::map: {
        std::vector<DType> from;
        for (uint32_t in : i.in) from.push_back(b_.code[in].dtype);
        return check_map(i.op, i.dtype, from);
      }
      case Kind::load: return load(i);
      case Kind::size:
        if (i.size >= b_.sizes || is_float(i.dtype)) refuse("names a size that does not exist");
        return;
      case Kind::index:
        if (i.axis >= b_.rank() || is_float(i.dtype)) refuse("names an axis that does not exist");
        return;
      case Kind::reduce: return reduce(i);
      case Kind::accumulator:
      case Kind::literal: return;
    }
  }

  void load(const Instruction& i) {
    if (i.operand >= b_.operands.size() - b_.stores.size()) refuse("loads an operand that does not exist");
    if (is_float(i.dtype) != is_float(b_.operands[i.operand])) refuse("loads into another type");
    const auto gathered = static_cast<uint32_t>(i.in.size());
    const bool first = !b_.plain[i.operand] && !b_.guarded[i.operand];
    if (gathered > kernels::max_rank || (!first && gathered != b_.gathered[i.operand])) refuse("gathers from an operand in two ways");
    b_.gathered[i.operand] = gathered;
    for (uint32_t in : i.in) {
      if (is_float(b_.code[in].dtype)) refuse("gathers with an index that is not an integer");
    }
    const bool guards = !i.lower.empty();
    if ((guards && (i.lower.size() != b_.rank() || gathered > 0)) || (!i.step.empty() && i.step.size() != i.lower.size())) refuse("guards a load wrongly");
    for (const auto* list : {&i.lower, &i.step}) {
      for (uint32_t size : *list) {
        if (size >= b_.sizes) refuse("names a size that does not exist");
      }
    }
    (guards ? b_.guarded : b_.plain)[i.operand] = true;
  }

  void reduce(const Instruction& i) {
    if (i.in.size() != 1) refuse("reduces several values at once");
    const bool from = is_float(b_.code[i.in[0]].dtype), to = is_float(i.dtype);
    const bool arg = i.reduction >= Reduction::argmax, logic = i.reduction == Reduction::any || i.reduction == Reduction::all;
    if (arg ? to : logic ? to || from : to != from) refuse("reduces into another type");
  }

  Body& b_;
  const size_t operands_, sizes_;
  const bool in_memory_;
};

}  // namespace

Body read_body(FieldReader& from, size_t operands, size_t sizes, Stores stores) {
  Body body;
  body_fields(from, body);
  from.end();
  Checker(body, operands, sizes, stores).run();
  return body;
}

}  // namespace ingot::backend::reference
