// The order of a tensor's axes in memory, outermost first.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

namespace ingot {

template <class T>
bool is_permutation(std::vector<T> order, size_t rank) {
  std::sort(order.begin(), order.end());
  bool whole = order.size() == rank;
  for (size_t i = 0; whole && i < rank; ++i) whole = order[i] == static_cast<T>(i);
  return whole;
}

}  // namespace ingot
