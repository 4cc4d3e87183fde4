// What a kernel is, whatever runs it: defined once, in its folder, and listed in definitions.cpp. Backends implement kernels (backend/offer.h).
#pragma once
#include <cstddef>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace ingot::kernels {

// A step without a body, from its node.
struct PlainStep {
  std::vector<std::byte> constants;
  size_t first = 0;                                // the node's first operand that the step reads; results come behind its operands
  std::vector<std::optional<ir::Dims>> read_as = {};  // per operand of the step: the dims that it broadcasts to
};

// An operand of a step, or any number of them.
struct OperandName {
  std::string_view name;
  bool any = false;
};
inline constexpr bool any = true;

struct Definition {
  std::string_view name;                           // RunKernel::name
  std::vector<OperandName> operands;               // of a step, in order
  std::vector<ir::Op> ops = {};                    // the primitives that become such steps; none: sites are found otherwise
  PlainStep (*plain)(const ir::Graph&, const ir::Node&) = nullptr;
  // The kernel in other primitives, for backends that lack it; null: they cannot do without it, or a fused body does it.
  ir::ValueId (*expand)(ir::Graph& to, const ir::Node&, const std::vector<ir::ValueId>& in) = nullptr;
  // A graph with the kernel in it, and with what may stand around it: every implementation is compared with the interpreter on such.
  ir::Graph (*random_case)(std::mt19937&) = nullptr;

  // Whether a step may have so many operands.
  bool takes(size_t count) const;
};

std::span<const Definition* const> definitions();
// Null where no kernel has the name.
const Definition* definition_of(std::string_view kernel);
// Null where no kernel stands for the primitive alone.
const Definition* definition_of(ir::Op);

}  // namespace ingot::kernels
