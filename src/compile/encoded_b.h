// Weights of GEMMs stored as small integers with scales: the form that encode_weights gives them.
//
// In a graph such a GEMM is matmul(A, mul(cast(numbers), scale)), or without the mul: numbers i8 [K, N], scale [1, N]. Where groups along K have a scale each, B is
// reshape(mul(sub(cast(reshape(numbers)), zero), scale)) with three axes inside, [K / group, group, N]; scale and zero are [K / group, 1, N], and a B without zeros has no sub. The interpreter, and a
// backend without an offer, compute it so. With an offer the GEMM reads the integers; its epilogue multiplies by the scale of a column, the kernel by those of groups.
#pragma once
#include <optional>
#include <vector>

#include "backend/site.h"
#include "ir/compose.h"
#include "ir/encoding.h"
#include "ir/graph.h"

namespace ingot::compile {

// A B of this form.
struct EncodedB {
  ir::ValueId numbers;
  ir::ValueId scale;  // or none_id; of groups: [K / group, N], in its own type
  ir::Encoding encoding;
  ir::ValueId zero = ir::none_id;  // of groups: [K / group, N], in its own type
  bool grouped() const { return encoding.block && encoding.block->k > 0; }
};
std::optional<EncodedB> encoded_b(const ir::Graph&, const ir::Node& matmul);
std::optional<EncodedB> encoded_value(const ir::Graph&, ir::ValueId b);
// What a packing step reads of B, by role: B, or numbers, scale and maybe zero of groups.
std::vector<ir::ValueId> packed_operands(const ir::Graph&, ir::ValueId b, const backend::Packing&);
// A sketch that has B as these numbers.
backend::Site encoded_sketch(const ir::Graph&, backend::Gemm sketch, const EncodedB&);
// B and the values between B and its integers. They are recomputed in each run if no offer reads the integers.
std::vector<ir::ValueId> decoding(const ir::Graph&, const ir::Node& matmul);
bool is_cast_of_int8(const ir::Graph&, ir::ValueId);

// B [K, N] in this form, of groups: numbers i8 [N, K], scale and maybe zero [N, K / group] in any type.
ir::Handle grouped_b(const ir::Handle& numbers, const ir::Handle& scale, const std::optional<ir::Handle>& zero);

}  // namespace ingot::compile
