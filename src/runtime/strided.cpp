#include "runtime/strided.h"

#include <algorithm>
#include <cstring>

namespace ingot::runtime {

bool row_major(const HostTensor& t) {
  if (t.strides == nullptr) return true;
  if (std::find(t.dims, t.dims + t.rank, 0) != t.dims + t.rank) return true;  // whatever the strides of an empty tensor say
  int64_t expected = 1;
  for (int d = t.rank - 1; d >= 0; --d) {
    if (t.dims[d] != 1 && t.strides[d] != expected) return false;
    expected *= t.dims[d];
  }
  return true;
}

size_t bytes_of(const HostTensor& t) {
  size_t bytes = ir::size_of(t.dtype);
  for (int d = 0; d < t.rank; ++d) bytes *= static_cast<size_t>(t.dims[d]);
  return bytes;
}

// Runs of neighbours are copied at once.
void copy_strided(const HostTensor& t, std::byte* plain, bool out) {
  auto size = static_cast<int64_t>(ir::size_of(t.dtype));
  int64_t run = 1;
  int outer = t.rank;
  while (outer > 0 && (t.dims[outer - 1] == 1 || t.strides == nullptr || t.strides[outer - 1] == run)) run *= t.dims[--outer];
  int64_t count = 1;
  for (int d = 0; d < outer; ++d) count *= t.dims[d];
  auto* data = static_cast<std::byte*>(t.data);
  int64_t index[32] = {};
  for (int64_t n = 0; n < count && run > 0; ++n) {
    int64_t offset = 0;
    for (int d = 0; d < outer; ++d) offset += index[d] * t.strides[d];
    std::byte *here = data + offset * size, *there = plain + n * run * size;
    std::memcpy(out ? there : here, out ? here : there, static_cast<size_t>(run * size));
    for (int d = outer - 1; d >= 0 && ++index[d] == t.dims[d]; --d) index[d] = 0;
  }
}

std::string shape_text(const HostTensor& t) {
  std::string s = "[";
  for (int d = 0; d < t.rank; ++d) s += (d ? ", " : "") + std::to_string(t.dims[d]);
  return s + "]";
}

}  // namespace ingot::runtime
