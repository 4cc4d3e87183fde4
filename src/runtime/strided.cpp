#include "runtime/strided.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace ingot::runtime {

namespace {

// Sizes and strides, outermost axis in memory first.
struct Axes {
  int64_t dims[64], strides[64];
};

Axes in_order(const HostTensor& t, Order order) {
  Axes given, out;
  for (int64_t d = t.rank - 1, row = 1; d >= 0; row *= t.dims[d--]) given.strides[d] = t.strides != nullptr ? t.strides[d] : row;
  for (int k = 0; k < t.rank; ++k) {
    const int d = order.empty() ? k : order[static_cast<size_t>(k)];
    out.dims[k] = t.dims[d];
    out.strides[k] = given.strides[d];
  }
  return out;
}

}  // namespace

bool is_dense_in(Order order, const HostTensor& t) {
  if (t.strides == nullptr && order.empty()) return true;
  if (std::find(t.dims, t.dims + t.rank, 0) != t.dims + t.rank) return true;  // an empty tensor is dense whatever its strides
  const Axes axes = in_order(t, order);
  int64_t expected = 1;
  for (int k = t.rank - 1; k >= 0; --k) {
    if (axes.dims[k] != 1 && axes.strides[k] != expected) return false;
    expected *= axes.dims[k];
  }
  return true;
}

bool missing_data(const HostTensor& t) { return t.data == nullptr && std::find(t.dims, t.dims + t.rank, 0) == t.dims + t.rank; }

bool may_overlap_itself(const HostTensor& t) {
  if (t.strides == nullptr || std::find(t.dims, t.dims + t.rank, 0) != t.dims + t.rank) return false;
  std::vector<std::pair<int64_t, int64_t>> axes;
  for (int d = 0; d < t.rank; ++d) {
    if (t.dims[d] != 1) axes.emplace_back(std::abs(t.strides[d]), t.dims[d]);
  }
  std::sort(axes.begin(), axes.end());
  int64_t reach = 0;
  for (auto [stride, size] : axes) {
    if (stride <= reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

size_t bytes_of(const HostTensor& t) {
  size_t bytes = ir::size_of(t.dtype);
  for (int d = 0; d < t.rank; ++d) bytes *= static_cast<size_t>(t.dims[d]);
  return bytes;
}

HostTensor value_of(const plan::Weight& w, const void* data, const int64_t* strides) {
  return {const_cast<void*>(data), w.dtype, static_cast<int>(w.dims.size()), w.dims.data(), strides};
}

Error wrong_order(std::string_view what, Order order) {
  return Error(Code::unsupported, fmt::format("{} is on the GPU with {}strides", what, order.empty() ? "" : "other "))
      .fix(order.empty() ? "give a contiguous tensor" : fmt::format("give a tensor whose axes in memory have the order {}", fmt::join(order, ", ")));
}

// Contiguous runs are copied at once.
void copy_strided(const HostTensor& t, Order order, std::byte* plain, bool out) {
  auto size = static_cast<int64_t>(ir::size_of(t.dtype));
  const auto [dims, strides] = in_order(t, order);
  int64_t run = 1;
  int outer = t.rank;
  while (outer > 0 && (dims[outer - 1] == 1 || strides[outer - 1] == run)) run *= dims[--outer];
  int64_t count = 1;
  for (int k = 0; k < outer; ++k) count *= dims[k];
  auto* data = static_cast<std::byte*>(t.data);
  int64_t index[64] = {};
  for (int64_t n = 0; n < count && run > 0; ++n) {
    int64_t offset = 0;
    for (int k = 0; k < outer; ++k) offset += index[k] * strides[k];
    std::byte *here = data + offset * size, *there = plain + n * run * size;
    std::memcpy(out ? there : here, out ? here : there, static_cast<size_t>(run * size));
    for (int k = outer - 1; k >= 0 && ++index[k] == dims[k]; --k) index[k] = 0;
  }
}

std::string shape_text(const HostTensor& t) {
  std::string s = "[";
  for (int d = 0; d < t.rank; ++d) s += (d ? ", " : "") + std::to_string(t.dims[d]);
  return s + "]";
}

}  // namespace ingot::runtime
