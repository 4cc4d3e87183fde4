// The constants of an attention step; then the mask's body, if there is one.
#pragma once
#include <cstdint>

namespace ingot::backend::reference {

struct AttentionConstants {
  double scale = 1;
  uint8_t causal = 0, masked = 0, batch = 0;  // batch: number of batch axes
};

template <class Stream, class C>
void attention_fields(Stream& s, C& c) {
  s.all(c.scale, c.causal, c.masked, c.batch);
}

}  // namespace ingot::backend::reference
