// Encodings of weights that an option may ask for: a file each.
#pragma once
#include <string_view>

#include "ir/compose.h"
#include "ir/encoding.h"

namespace ingot::compile {

// The numbers of a weight [N, K], and their scales [N, blocks along K], float32.
struct EncodedWeight {
  ir::Handle numbers, scale;
};

struct WeightEncoding {
  std::string_view name;  // of option weight_dtype
  ir::Encoding encoding;  // of the weight as B [K, N] of a GEMM
  // In primitives: prepare does it. `rows`: float32 [N, K].
  EncodedWeight (*encode)(const ir::Handle& rows);
};

// nullptr where there is none of that name.
const WeightEncoding* find_encoding(std::string_view name);

}  // namespace ingot::compile
