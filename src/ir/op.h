// The operations of the canonical graph by number and name, and what prim.def says of each.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ir/dtype.h"

namespace ingot::ir {

enum class Op : uint8_t {
#define MAP(name, ...) name,
#define OP(name, ...) name,
#include "ir/prim.def"
};
// How many there are: numbers from here on are none.
inline constexpr size_t op_count = 0
#define MAP(...) +1
#define OP(...) +1
#include "ir/prim.def"
    ;

// Rows and columns of the matrices that the primitives of linear algebra take.
inline constexpr int64_t max_matrix = 32;

// Columns of prim.def, which explains them.
enum class ResultType : uint8_t { same, boolean, first, attribute };
enum class Operands : uint8_t { any, real, numbers, floats, wide_floats, integers, whole_numbers, logical };
enum class Cost : uint8_t { none, cheap, division, root, lookup, function, dear };

std::string_view name_of(Op);
std::optional<Op> op_from_name(std::string_view);

bool is_map(Op);        // a scalar function on elements
int arity_of(Op);       // of a map; -1 for the rest
ResultType result_of(Op);
Operands operands_of(Op);
bool takes(Op, DType);  // a map: operands of this type; select: what it selects
bool takes_wide_unsigned(Op);  // the same on the bits of a signed integer
Cost cost_of(Op);       // of one element
bool is_leaf(Op);       // an input or a weight
bool is_generated(Op);  // from sizes and attributes alone
bool is_view(Op);
bool moves(Op);         // each element of the result is one of an operand's
bool is_inlined(Op);    // computed inside the body that reads it
bool is_anchor(Op);     // computed by a kernel that may run the body after it
bool has_effect(Op);    // not the same each time, or unknown

}  // namespace ingot::ir
