// Which device a plan runs on, and which of its programs that is.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "backend/run/device.h"
#include "plan/plan.h"

namespace ingot::runtime {

struct Placement {
  size_t target = 0;  // of Plan::targets
  std::shared_ptr<const backend::Backend> backend;
};

// `device`: "cpu", "cuda", "cuda:1", "reference", or "auto": the CPU when the plan has a program for it, else the first GPU. Error (version) when
// the plan has no program for the device, (device) without the device, (invalid_option) for other names, (invalid_input) when it calls kernels of the user's and is not trusted to. All runs begin here.
Placement place(const plan::Plan&, std::string_view device);

// The target to compile for where the device is a GPU that the plan has no program for. Errors as above.
std::optional<Target> missing_target(const plan::Plan&, std::string_view device);

}  // namespace ingot::runtime
