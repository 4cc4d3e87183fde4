// Weights of GEMMs stored as small integers with scales: the form that encode_weights gives them.
//
// In a graph such a GEMM is matmul(A, mul(cast(numbers), scale)), or without the mul: numbers i8 [K, N], scale [1, N]. The interpreter, and a backend without
// an offer, compute it so. With an offer the GEMM reads the integers and its epilogue multiplies by the scale.
#pragma once
#include <optional>
#include <vector>

#include "ir/encoding.h"
#include "ir/graph.h"

namespace ingot::compile {

// A B of this form.
struct EncodedB {
  ir::ValueId numbers;
  ir::ValueId scale;  // or none_id
  ir::Encoding encoding;
};
std::optional<EncodedB> encoded_b(const ir::Graph&, const ir::Node& matmul);
// B and the values between B and its integers. They are recomputed in each run if no offer reads the integers.
std::vector<ir::ValueId> decoding(const ir::Graph&, const ir::Node& matmul);
bool is_cast_of_int8(const ir::Graph&, ir::ValueId);

}  // namespace ingot::compile
