// Plans in saved programs, which hold them as tensors, byte for byte.
#pragma once
#include <memory>
#include <vector>

#include "torch/tensors.h"

namespace ingot_torch {

// True if the tensor starts like a plan.
bool holds_plan(const Tensor& plan);
// Creates the object that runs a plan with prepared weights: its sessions. It is destroyed before plan and weights.
using MakePool = std::shared_ptr<void> (*)(ingot_plan* plan, ingot_weights* weights);
// The pool of this plan with these weights (in the plan's order). The first call reads the plan and prepares the weights. Later calls only compare the
// tensors of plan and weights: their identity, place, and number of writes. The tensors are kept until others replace them or another program comes; then
// programs that are still in use prepare their weights once more.
std::shared_ptr<void> saved_pool(const Tensor& plan, const std::vector<Tensor>& weights, MakePool make);

}  // namespace ingot_torch
