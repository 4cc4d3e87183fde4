#include "ir/op.h"

#include <iterator>

namespace ingot::ir {

namespace {

struct OpInfo {
  std::string_view name;
  int arity;  // of a map; -1 for the rest
  ResultType result;
};

constexpr ResultType result_of_text(std::string_view text) {
  if (text == "bool") return ResultType::bool_type;
  if (text == "first") return ResultType::first_type;
  if (text == "attr") return ResultType::attr_type;
  return ResultType::same_type;
}

constexpr OpInfo ops[] = {
#define MAP(name, arity, result) {#name, arity, result_of_text(#result)},
#define OP(name) {#name, -1, ResultType::same_type},
#include "ir/prim.def"
};

}  // namespace

std::string_view name_of(Op op) { return ops[static_cast<int>(op)].name; }

std::optional<Op> op_from_name(std::string_view name) {
  for (size_t i = 0; i < std::size(ops); ++i) {
    if (ops[i].name == name) return static_cast<Op>(i);
  }
  return std::nullopt;
}

bool is_map(Op op) { return ops[static_cast<int>(op)].arity > 0; }
int arity_of(Op op) { return ops[static_cast<int>(op)].arity; }
ResultType result_of(Op op) { return ops[static_cast<int>(op)].result; }

}  // namespace ingot::ir
