// The operations of the canonical graph by number and name; what they mean is in prim.def.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace ingot::ir {

enum class Op : uint8_t {
#define MAP(name, arity, result) name,
#define OP(name) name,
#include "ir/prim.def"
};

enum class ResultType : uint8_t { same_type, bool_type, first_type, attr_type };
std::string_view name_of(Op);
std::optional<Op> op_from_name(std::string_view);
bool is_map(Op);       // a scalar function on elements
int arity_of(Op);      // of a map
ResultType result_of(Op);

}  // namespace ingot::ir
