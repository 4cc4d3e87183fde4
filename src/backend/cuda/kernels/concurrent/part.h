// What a step on CUDA keeps so that it can become a part of another (EmittedStep::as_part).
#pragma once
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "backend/offer.h"

namespace ingot::backend::cuda {

struct Part {
  std::string name;  // steps whose parts have equal names have equal code, so they can be one step
  std::function<EmittedStep()> emit;  // its kernels take the parameters of several steps (ParametersOf::rows). Only steps that are joined are printed so
  // Where sizes choose among its kernels: the step with those of these names that the parts launch together, and the choices that lead to them. Null: it has all.
  EmittedStep (*with_kernels)(const EmittedStep&, const std::set<std::string>& launched) = nullptr;
};

// Null: the step can be no part.
inline const Part* part_of(const EmittedStep& step) {
  const auto* part = std::any_cast<std::shared_ptr<const Part>>(&step.as_part);
  return part == nullptr ? nullptr : part->get();
}
inline std::any as_part(Part part) { return std::make_shared<const Part>(std::move(part)); }

}  // namespace ingot::backend::cuda
