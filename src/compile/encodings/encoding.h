// Encodings of weights that option weight_dtype may name, one file each.
#pragma once
#include <string_view>

#include "ir/compose.h"
#include "ir/encoding.h"

namespace ingot::compile {

// The integers of a weight [N, K], and their float32 scales [N, blocks along K].
struct EncodedWeight {
  ir::Handle numbers, scale;
};

struct WeightEncoding {
  std::string_view name;  // value of option weight_dtype
  ir::Encoding encoding;  // of the weight as B [K, N] of a GEMM
  // Encodes in primitives, in the prepare function. `rows`: float32 [N, K].
  EncodedWeight (*encode)(const ir::Handle& rows);
};

// nullptr if no encoding has this name.
const WeightEncoding* find_encoding(std::string_view name);

}  // namespace ingot::compile
