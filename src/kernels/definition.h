// The definition of a kernel, independent of backends: once, in the kernel's folder, and listed in definitions.cpp.
// Backends implement kernels (backend/offer.h).
#pragma once
#include <cstddef>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "kernels/run/role.h"

namespace ingot::kernels {

// A step of a kernel without a body, derived from its node.
struct PlainStep {
  std::vector<std::byte> constants;
  size_t first = 0;                                // the first operand of the node that the step reads; results come after its operands
  std::vector<std::optional<ir::Dims>> read_as = {};  // per operand of the step: the dims to which it broadcasts
};

// Operands of a step by role. A role may be listed twice: once and any number of further ones.
struct RoleOf {
  enum class Times : uint8_t { once, optional, any };
  Role role;
  Times times = Times::once;
};
inline constexpr RoleOf::Times optional = RoleOf::Times::optional, any = RoleOf::Times::any;

struct Definition {
  std::string_view name;                           // RunKernel::name, unless `implementations` says others
  std::vector<RoleOf> operands;                    // of a step, in order; what a body loads and stores comes last
  std::vector<ir::Op> ops = {};                    // the primitives that become such steps; empty: other code finds the sites
  PlainStep (*plain)(const ir::Graph&, const ir::Node&) = nullptr;
  // Expands the kernel to other primitives, a value for each result, for backends that lack it. Null: they must have it, or a fused body computes it.
  std::vector<ir::ValueId> (*expand)(ir::Graph& to, const ir::Node&, const std::vector<ir::ValueId>& in) = nullptr;
  // A random graph that contains the kernel and what may surround it, to compare every implementation with the interpreter. Null: those of another kernel contain it.
  ir::Graph (*random_case)(std::mt19937&) = nullptr;
  // The names of the kernels that implement it, if there are others than its own. "conv_*": all whose names begin so, so that one more needs no change here.
  std::vector<std::string_view> implementations = {};

  // True if a step may have this number of operands.
  bool takes(size_t count) const;
  // The roles of a step's operands without a body: the listed ones in order, of which one that repeats takes what the others leave; then the outputs.
  std::vector<Role> roles(size_t inputs, size_t outputs) const;
};

std::span<const Definition* const> definitions();
// Null if there is no kernel of this name.
const Definition* definition_of(std::string_view kernel);
// Null if no kernel implements the primitive alone.
const Definition* definition_of(ir::Op);

}  // namespace ingot::kernels
