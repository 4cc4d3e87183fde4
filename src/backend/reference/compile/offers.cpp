#include "backend/reference/compile/offers.h"

#include "backend/compiler.h"
#include "backend/reference/run/body.h"
#include "base/error.h"

namespace ingot::backend::reference {

namespace {

void check(const Target&, const Settings&) {}

Offers offers(const Site& site, const Target&, const Settings&) {
  Offers out;
#define X(name) name##_offers(site, out);
#include "backend/reference/run/kernels.def"
#undef X
  return out;
}

std::vector<DeviceCode> compile(std::span<const CodeUnit>, const Target&) { return {}; }

uint32_t index_of(const ir::Dim& size, std::vector<ir::Dim>& sizes) {
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k] == size) return static_cast<uint32_t>(k);
  }
  sizes.push_back(size);
  return static_cast<uint32_t>(sizes.size() - 1);
}

Instruction instruction(const backend::Instruction& i, std::vector<ir::Dim>& sizes) {
  Instruction out{static_cast<Kind>(i.kind), i.dtype, i.op, static_cast<Reduction>(i.reduction), i.axis, i.operand, 0, 0, 0, i.in, {}, {}};
  if (i.kind == backend::Instruction::Kind::literal || (i.kind == backend::Instruction::Kind::load && !i.lower.empty())) {
    is_float(i.dtype) ? void(out.number = i.number.to_double()) : void(out.integer = i.number.to_int());
  }
  if (i.kind == backend::Instruction::Kind::size) out.size = index_of(i.dim, sizes);
  for (const ir::Dim& d : i.lower) out.lower.push_back(index_of(d, sizes));
  for (int64_t step : i.step) out.step.push_back(index_of(step, sizes));
  return out;
}

}  // namespace

void write_body(const FusedBody& from, FieldWriter& constants, std::vector<ir::Dim>& sizes) {
  if (from.outer.size() + from.row.size() > kernels::max_rank) fail(Code::unsupported, "a fused body of {} axes is too large", from.outer.size() + from.row.size());
  Body body;
  std::vector<ir::Dim> own;
  body.outer = static_cast<uint32_t>(from.outer.size());
  body.row = static_cast<uint32_t>(from.row.size());
  for (const backend::Instruction& i : from.code) body.code.push_back(instruction(i, own));
  body.operands = from.operands;
  for (const backend::Store& s : from.stores) body.stores.push_back({s.operand, s.value});
  own.insert(own.end(), from.outer.begin(), from.outer.end());
  own.insert(own.end(), from.row.begin(), from.row.end());
  body.sizes = static_cast<uint32_t>(own.size());
  body_fields(constants, body);
  sizes.insert(sizes.end(), own.begin(), own.end());
}

extern const Compiler compiler;
const Compiler compiler{check, offers, compile};

}  // namespace ingot::backend::reference
