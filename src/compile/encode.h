// Weights of GEMMs stored as small integers with scales.
//
// In a graph such a GEMM is matmul(A, mul(cast(numbers), scale)), or without the mul: numbers i8 [K, N], scale [1, N]. The interpreter, and a backend without
// an offer, compute it so. With an offer the GEMM reads the integers and its epilogue multiplies by the scale.
#pragma once
#include <optional>
#include <vector>

#include "compile/encodings/encoding.h"
#include "ir/graph.h"

namespace ingot::compile {

struct Backend;

// A B of this form.
struct EncodedB {
  ir::ValueId numbers;
  ir::ValueId scale;  // or none_id
  ir::Encoding encoding;
};
std::optional<EncodedB> encoded_b(const ir::Graph&, const ir::Node& matmul);
// B and the values between B and its integers. They are recomputed in each run if no offer reads the integers.
std::vector<ir::ValueId> decoding(const ir::Graph&, const ir::Node& matmul);

// Rewrites B of each GEMM to this form: constant float32, float16 and bfloat16 weights if `wanted` is given, and int8 weights that the model
// dequantises itself, with a scale per column or none.
ir::Graph encode_weights(ir::Graph, const Backend&, const WeightEncoding* wanted);

}  // namespace ingot::compile
