// The constants of a matmul step; then the body.
#pragma once
#include <cstdint>
#include <vector>

namespace ingot::backend::reference {

struct MatmulConstants {
  uint8_t batch = 0, m = 1, k = 1;   // number of indices of each kind
  uint8_t rank = 0;                  // of A, if it is read through a map; else 0
  std::vector<int64_t> steps = {};   // strides of the map: [rank][batch + m + k]
};

template <class Stream, class C>
void matmul_fields(Stream& s, C& c) {
  s.all(c.batch, c.m, c.k, c.rank);
  s.list(c.steps, [&](auto& step) { s.field(step); });
}

}  // namespace ingot::backend::reference
