#include "ir/encoded_sizes.h"

#include "base/error.h"

namespace ingot::ir {

Dim storage_bytes(const Encoding& e, const Dims& dims) {
  if (e.panels) fail(Code::internal, "panels have sizes that are known");
  if (e.bits % 8 == 0) return product(dims) * Dim(e.bits / 8);
  Dim rows = 1;
  for (size_t d = 0; d + 1 < dims.size(); ++d) rows *= dims[d];
  return rows * ceildiv((dims.empty() ? Dim(1) : dims.back()) * Dim(e.bits), 8);
}

}  // namespace ingot::ir
