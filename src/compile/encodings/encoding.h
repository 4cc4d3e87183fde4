// Encodings of weights that option weight_dtype may name, one file each.
#pragma once
#include <string_view>

#include "ir/compose.h"
#include "ir/encoding.h"

namespace ingot::compile {

// The integers of a weight [N, K], and their scales [N, blocks along K].
struct EncodedWeight {
  ir::Handle numbers, scale;
};

struct WeightEncoding {
  std::string_view name;  // value of option weight_dtype
  ir::Encoding encoding;  // of the weight as B [K, N] of a GEMM
  bool grouped;           // option weight_group says how many numbers along K share a scale; else a whole column does
  // Encodes in primitives, in the prepare function. `rows`: float32 [N, K], where K is a multiple of `group`.
  EncodedWeight (*encode)(const ir::Handle& rows, int64_t group);
};

// nullptr if no encoding has this name.
const WeightEncoding* find_encoding(std::string_view name);

}  // namespace ingot::compile
