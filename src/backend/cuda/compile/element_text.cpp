#include "backend/cuda/compile/element_text.h"

#include <algorithm>

#include "backend/cuda/compile/expression.h"
#include "base/error.h"

namespace ingot::backend::cuda {

using Number = kernels::CudaNumber;
using Kind = Instruction::Kind;

std::string ElementText::parameter(const Number& n) {
  auto at = std::find(numbers_.begin(), numbers_.end(), n);
  if (at == numbers_.end()) at = numbers_.insert(at, n);
  return fmt::format("p.number[{}]", at - numbers_.begin());
}

void ElementText::take(const Number& n, int64_t value) {
  if (std::none_of(known_.begin(), known_.end(), [&](const kernels::CudaKnown& k) { return k.number == n; })) known_.push_back({n, value});
}

std::string ElementText::number(const Number& n, const ir::Dim& value) {
  if (!known_constants_ || !value.is_constant()) return parameter(n);
  take(n, value.value());
  return fmt::format("{}ll", value.value());
}

std::string ElementText::stride(size_t operand, size_t axis) {
  const StridedLayout& x = layouts_[operand];
  // An axis of size 1 has no stride.
  if (x.dims[axis].is_constant() && x.dims[axis].value() == 1) return "0ll";
  return number({Number::stride, static_cast<uint8_t>(operand), static_cast<uint8_t>(axis)}, x.strides[axis]);
}

std::string ElementText::dim(size_t operand, size_t axis) { return number({Number::dim, static_cast<uint8_t>(operand), static_cast<uint8_t>(axis)}, layouts_[operand].dims[axis]); }

std::string ElementText::size(const ir::Dim& d) { return d.is_constant() ? fmt::format("{}ll", d.value()) : size_as_parameter(d); }

std::string ElementText::size_as_parameter(const ir::Dim& d) {
  auto at = std::find(sizes_.begin(), sizes_.end(), d);
  if (at == sizes_.end()) at = sizes_.insert(at, d);
  return parameter({Number::size, static_cast<uint8_t>(first_size_ + static_cast<size_t>(at - sizes_.begin())), 0});
}

std::string ElementText::load(const FusedBody& body, const Instruction& i, size_t first_operand, const std::vector<std::string>& coordinates) {
  size_t operand = first_operand + i.operand;
  std::string at, condition;
  for (size_t axis = 0; axis < coordinates.size(); ++axis) {
    std::string s = stride(operand, axis);
    if (s != "0ll") at += fmt::format(" + {} * {}", coordinates[axis], s);
  }
  for (size_t n = 0; n < i.in.size(); ++n) {
    size_t axis = coordinates.size() + n;
    condition += fmt::format("{}inside(r{}, {}, status)", n > 0 ? " && " : "", i.in[n], dim(operand, axis));
    at += fmt::format(" + (i64)r{} * {}", i.in[n], stride(operand, axis));
  }
  std::string v = fmt::format("value(((const {}*)p.pointer[{}])[0{}])", memory_type(body.operands[i.operand]), operand, at);
  return condition.empty() ? v : fmt::format("{} ? {} : ({})0", condition, v, value_type(i.dtype));
}

std::string ElementText::code(const FusedBody& body, size_t first_operand, const std::vector<std::string>& coordinates, const std::vector<std::string>& accumulators,
                              const std::vector<std::string>& brought, bool for_halves) {
  std::string out;
  for (size_t k = 0; k < body.code.size(); ++k) {
    const Instruction& i = body.code[k];
    std::string e;
    switch (i.kind) {
      case Kind::accumulator: e = accumulators.at(i.half); break;
      case Kind::literal: e = literal(i.number, i.dtype); break;
      case Kind::size: e = size(i.dim); break;
      case Kind::index: e = coordinates[i.axis]; break;
      case Kind::load:
        if (!i.lower.empty()) fail(Code::unsupported, "a body of single elements on CUDA reads a padded tensor");
        e = k < brought.size() && !brought[k].empty() ? brought[k] : load(body, i, first_operand, coordinates);
        break;
      case Kind::map: {
        std::vector<Argument> in;
        for (Reg r : i.in) in.push_back({body.code[r].dtype, fmt::format("r{}", r)});
        e = map_expression(i.op, i.dtype, in, for_halves);
        break;
      }
      default: fail(Code::unsupported, "a body of single elements on CUDA reduces its rows");
    }
    out += fmt::format("  const {} r{} = {};\n", value_type(i.dtype), k, e);
  }
  return out;
}

bool is_of_elements(const FusedBody& body) {
  return std::all_of(body.code.begin(), body.code.end(), [](const Instruction& i) { return i.kind != Kind::reduce && i.lower.empty(); });
}

}  // namespace ingot::backend::cuda
