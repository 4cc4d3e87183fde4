// Picks the device for a plan and the program that runs there.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "backend/run/device.h"
#include "plan/plan.h"

namespace ingot::runtime {

struct Placement {
  size_t target = 0;  // index in Plan::targets
  std::shared_ptr<const backend::Backend> backend;
};

// `device`: "cpu", "cuda", "cuda:1", "reference", or "auto": the CPU if the plan has a program for it, else the first GPU. Errors: (version)
// the plan has no program for the device; (device) there is no such device; (invalid_option) unknown name; (invalid_input) the plan calls user
// kernels and is not trusted. Every run starts here.
Placement place(const plan::Plan&, std::string_view device);

// The target to compile for if the device is a GPU for which the plan has no program. Errors as in place().
std::optional<Target> missing_target(const plan::Plan&, std::string_view device);

}  // namespace ingot::runtime
