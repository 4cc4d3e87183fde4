// Weights of GEMMs that are stored as numbers of fewer bits, with scales.
//
// In a graph such a GEMM is matmul(A, mul(cast(numbers), scale)): numbers i8 [K, N], scale [1, N], or no mul. That is its meaning for the interpreter and for
// a backend without an offer for it. With an offer the GEMM reads the numbers, and the body behind it multiplies by the scale.
#pragma once
#include <optional>
#include <vector>

#include "compile/encodings/encoding.h"
#include "ir/graph.h"

namespace ingot::compile {

struct Backend;

// B of a GEMM, of this form.
struct EncodedB {
  ir::ValueId numbers;
  ir::ValueId scale;  // or none_id
  ir::Encoding encoding;
};
std::optional<EncodedB> encoded_b(const ir::Graph&, const ir::Node& matmul);
// B and the values between it and its numbers: what is done anew in each run where no offer reads the numbers.
std::vector<ir::ValueId> decoding(const ir::Graph&, const ir::Node& matmul);

// Brings B of each GEMM into this form: the constant ones of float32, float16 and bfloat16 where `wanted` is an encoding; and what a model itself computes
// from int8 weights, with or without scales of each column.
ir::Graph encode_weights(ir::Graph, const Backend&, const WeightEncoding* wanted);

}  // namespace ingot::compile
