// Shared by the files of the builder language.
#pragma once
#include "ir/compose.h"

namespace ingot::ir {

// A node whose result type is inferred.
Handle make_node(Graph&, Op, std::vector<ValueId> in, Attributes);
std::pair<Handle, Handle> make_node2(Graph&, Op, std::vector<ValueId> in, Attributes);
// left == right (or <=) must hold at run time: recorded once, unless it is known to hold.
void require(Graph&, const Dim& left, Check::Kind, const Dim& right, const char* why);
// The shapes broadcast together; what that assumes without knowing is required.
Dims require_broadcast(Graph&, const std::vector<Dims>& shapes);
// The number as the dtype holds it: integers wrap, as a cast does.
Scalar converted(const Scalar&, DType);
// The node, of types that have one.
Handle cast_node(const Handle&, DType);

// uint16, uint32 and uint64: conversions from and to other types, and a signed integer for each of the same order.
Handle from_wide_unsigned(const Handle&, DType to);
Handle to_wide_unsigned(const Handle&, DType to);
Handle in_order_of_signed(const Handle&);
Handle of_order_of_signed(const Handle&, DType unsigned_type);

}  // namespace ingot::ir
