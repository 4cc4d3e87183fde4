// The constants of a matmul step: these, then the body.
#pragma once
#include <cstdint>
#include <vector>

namespace ingot::backend::reference {

struct MatmulConstants {
  uint8_t batch = 0, m = 1, k = 1;   // indices of each kind
  uint8_t rank = 0;                  // of A where it is read through a map; else 0
  std::vector<int64_t> steps = {};   // of the map: [rank][batch + m + k]
};

template <class Stream, class C>
void matmul_fields(Stream& s, C& c) {
  s.all(c.batch, c.m, c.k, c.rank);
  s.list(c.steps, [&](auto& step) { s.field(step); });
}

}  // namespace ingot::backend::reference
