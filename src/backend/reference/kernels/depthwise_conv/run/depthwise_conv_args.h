// The constants of a depthwise_conv step; then the body.
#pragma once
#include <cstdint>
#include <vector>

namespace ingot::backend::reference {

struct DepthwiseConvConstants {
  uint8_t kept = 0, summed = 0;      // number of indices
  uint8_t rank = 0;                  // of A
  std::vector<int64_t> steps = {};   // strides of the map: [rank][kept + summed]
};

template <class Stream, class C>
void depthwise_conv_fields(Stream& s, C& c) {
  s.all(c.kept, c.summed, c.rank);
  s.list(c.steps, [&](auto& step) { s.field(step); });
}

}  // namespace ingot::backend::reference
