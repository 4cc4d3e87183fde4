// Splits a graph into the part that depends on weights alone (the prepare function) and the rest.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backend/site.h"
#include "ir/graph.h"

namespace ingot::compile {

struct Backend;

// A tensor that the prepare function computes.
struct DerivedTensor {
  std::string name;
  ir::ValueId made = ir::none_id;  // in Split::prepare
  std::optional<backend::Packing> packing = std::nullopt;  // B of a GEMM, packed for its kernel; else row-major
  int64_t bytes = 0;
  bool has_packing_step() const { return packing && packing->write == nullptr; }  // else prepare's graph computes it as it is stored
};

struct Split {
  ir::Graph prepare;                                 // its outputs are the derived tensors, in order
  ir::Graph main;
  std::vector<DerivedTensor> derived;
  std::vector<uint32_t> derived_leaf;                // per value of main: index of the derived tensor that this leaf reads, or none_id
  std::vector<uint32_t> packed_operand;              // per node of main: derived index of its packed second operand (matmul), or none_id
};

// Per value: true if prepare can compute it, which means that it depends only on weights and constants, or is a constant table, and on no size of the inputs.
// For an encoded weight prepare computes integers and scales, but never the floats that GEMMs decode from them.
std::vector<bool> find_prepared(const ir::Graph&);

// Asks the backend which weights GEMMs read packed and which concatenations part by part. Indices of derived tensors count
// from `first`: they are shared by all functions.
Split split(const ir::Graph&, const Backend&, uint32_t first = 0);

}  // namespace ingot::compile
