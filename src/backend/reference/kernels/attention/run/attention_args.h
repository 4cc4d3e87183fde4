// The constants of an attention step; then the mask's body, if there is one.
#pragma once
#include <cstdint>

namespace ingot::backend::reference {

struct AttentionConstants {
  double scale = 1;
  uint8_t causal = 0, masked = 0, batch = 0;  // batch: number of batch axes
  uint8_t paged = 0, filled = 0;              // true if there is a block table, a number of keys for each sequence
};

template <class Stream, class C>
void attention_fields(Stream& s, C& c) {
  s.all(c.scale, c.causal, c.masked, c.batch, c.paged, c.filled);
}

}  // namespace ingot::backend::reference
