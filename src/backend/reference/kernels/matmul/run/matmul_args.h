// The constants of a matmul step; then the body.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/run/role.h"

namespace ingot::backend::reference {

struct MatmulConstants {
  uint8_t batch = 0, m = 1, k = 1;   // number of indices of each kind
  uint8_t rank = 0;                  // of A, if it is read through a map; else 0
  std::vector<int64_t> steps = {};   // strides of the map: [rank][batch + m + k]
  int64_t group = 0;                 // elements along K that share a scale; 0: there are no scales
  uint8_t zeros = 0, ragged = 0;     // true if there are zeros in addition to the scales; if there are row ends

  // Of the operands in front of the body's.
  std::vector<kernels::Role> roles() const {
    std::vector<kernels::Role> out(kernels::product_roles.begin(), kernels::product_roles.end());
    if (group != 0) out.push_back(kernels::Role::scale);
    if (zeros != 0) out.push_back(kernels::Role::zero);
    if (ragged != 0) out.push_back(kernels::Role::row_ends);
    return out;
  }
};

template <class Stream, class C>
void matmul_fields(Stream& s, C& c) {
  s.all(c.batch, c.m, c.k, c.rank);
  s.list(c.steps, [&](auto& step) { s.field(step); });
  s.all(c.group, c.zeros, c.ragged);
}

}  // namespace ingot::backend::reference
