// Splits a graph into what depends on weights alone (the prepare function) and the rest.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backend/offer.h"
#include "ir/graph.h"

namespace ingot::compile {

struct Backend;

// A tensor the prepare function makes.
struct DerivedTensor {
  std::string name;
  ir::ValueId made = ir::none_id;  // in Split::prepare
  std::optional<backend::Packing> packing = std::nullopt;  // B of a GEMM, packed for its kernel; else row-major
  int64_t bytes = 0;
};

struct Split {
  ir::Graph prepare;                                 // its outputs are the derived tensors, in order
  ir::Graph main;
  std::vector<DerivedTensor> derived;
  std::vector<uint32_t> derived_leaf;                // per value of main: index of the derived tensor it stands for, or none_id
  std::vector<uint32_t> packed_operand;              // per node of main: derived index of its packed second operand (matmul), or none_id
};

// Per value: what prepare can make. It depends on weights and numbers alone, or is a table of numbers; prepare runs once, so no size of the inputs takes part.
// Of an encoded weight it makes the numbers and scales, and never the floating-point numbers that GEMMs decode from them.
std::vector<bool> find_prepared(const ir::Graph&);

// The backend says which weights GEMMs read packed, and which concatenated ones piece by piece. `first`: index of the first derived tensor among those of all
// functions; indices in the result count from there.
Split split(const ir::Graph&, const Backend&, uint32_t first = 0);

}  // namespace ingot::compile
