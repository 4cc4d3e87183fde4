// Plans that are in tensors themselves, byte for byte, as saved programs hold them.
#pragma once
#include <memory>
#include <vector>

#include "torch/tensors.h"

namespace ingot_torch {

// Whether the tensor starts as a plan does.
bool holds_plan(const Tensor& plan);
// Makes what runs a plan with weights that are prepared: its sessions. It goes before they do.
using MakePool = std::shared_ptr<void> (*)(ingot_plan* plan, ingot_weights* weights);
// The pool of this plan with these weights (in the plan's order). The plan is read when its bytes are met first, and its weights are
// prepared for the tensors given; later calls only compare: which tensors plan and weights are, where, how often they were written. The tensors are
// kept until others come in their place or another program comes; then the programs that are still called prepare theirs once more.
std::shared_ptr<void> saved_pool(const Tensor& plan, const std::vector<Tensor>& weights, MakePool make);

}  // namespace ingot_torch
