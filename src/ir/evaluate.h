// One node of the reference interpreter; reference.cpp binds sizes and goes through the graph.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "ir/scalar_functions.h"

namespace ingot::ir {

using Index = std::vector<int64_t>;

// A value while interpreting: floats as double, everything else as int64.
struct Data {
  DType dtype = DType::f32;
  Index dims;
  std::vector<double> f;
  std::vector<int64_t> i;

  bool floating() const { return is_float(dtype); }
  int64_t numel() const { return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>()); }
  void allocate() { floating() ? f.assign(static_cast<size_t>(numel()), 0) : i.assign(static_cast<size_t>(numel()), 0); }
  Element at(size_t n) const { return floating() ? Element{f[n], 0} : Element{0, i[n]}; }
  void set(size_t n, const Element& e) {
    if (floating()) {
      f[n] = e.f;
    } else {
      i[n] = e.i;
    }
  }
  void copy(size_t to, const Data& from, size_t n) { set(to, from.at(n)); }
};

// Elements as they lie in memory, row-major.
Data unpack(DType, Index dims, std::span<const std::byte>);
std::vector<std::byte> pack(const Data&);
// Sizes under the symbols' values; Error when one is negative or they multiply to more than memory can hold.
Index sizes_of(const Dims&, std::span<const int64_t> symbols);
// Linear algebra of small matrices, for evaluate_node.
void evaluate_matrices(const Node&, const std::vector<const Data*>& in, const std::vector<Data*>& out);
// Fourier transforms, for evaluate_node.
void evaluate_fourier(const Node&, const std::vector<const Data*>& in, const std::vector<Data*>& out);
// Elements at given places, for evaluate_node.
void evaluate_grid_sample(const Attributes&, const Data& x, const Data& grid, Data& out);
// Computes the results of `node` from `values` (by value id) and stores them there.
void evaluate_node(const Graph&, const Node&, std::span<const int64_t> symbols, std::vector<Data>& values);

}  // namespace ingot::ir
