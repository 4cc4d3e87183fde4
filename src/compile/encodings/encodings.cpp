#include "compile/encodings/encoding.h"

namespace ingot::compile {

extern const WeightEncoding int8_encoding, int4_encoding;

const WeightEncoding* find_encoding(std::string_view name) {
  for (const WeightEncoding* e : {&int8_encoding, &int4_encoding}) {
    if (e->name == name) return e;
  }
  return nullptr;
}

}  // namespace ingot::compile
