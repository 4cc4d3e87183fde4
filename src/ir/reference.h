// The reference interpreter: the meaning of the canonical graph, element by element, typed, with
// exact integers and double for the inside of float functions (rounded to the value's dtype once
// per node). Slow on purpose; every backend is compared with it.
#pragma once
#include <span>
#include <vector>

#include "ir/graph.h"

namespace ingot::ir {

// A dense row-major host array.
struct Array {
  DType dtype = DType::f32;
  std::vector<int64_t> dims;
  std::vector<std::byte> bytes;
  int64_t numel() const;
  static Array empty(DType dtype, std::vector<int64_t> dims);
};

// Binds the symbols by matching the arrays with the inputs' dims (Error when they contradict or leave
// the range), checks graph.checks, and returns the outputs.
std::vector<Array> interpret(const Graph&, std::span<const Array> inputs);
// The symbols' values that the inputs' sizes imply.
std::vector<int64_t> bind_symbols(const Graph&, std::span<const std::vector<int64_t>> input_dims);

}  // namespace ingot::ir
