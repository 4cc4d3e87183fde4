#include "backend/body.h"

#include <algorithm>

#include "base/error.h"

namespace ingot::backend {

std::vector<uint8_t> stages(const FusedBody& body) {
  std::vector<uint8_t> out(body.code.size(), 0);
  for (size_t k = 0; k < body.code.size(); ++k) {
    for (Reg in : body.code[k].in) {
      bool reduced = body.code[in].kind == Instruction::Kind::reduce;
      out[k] = std::max<uint8_t>(out[k], static_cast<uint8_t>(out[in] + reduced));
    }
    if (out[k] > 3) fail(Code::internal, "a fused body has more than 4 stages");
  }
  return out;
}

}  // namespace ingot::backend
