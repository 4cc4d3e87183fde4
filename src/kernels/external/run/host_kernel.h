// Calls a registered kernel on the host: opens its library and calls its function (include/ingot/kernel.h). Shared by the backends that run on the host.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ingot/kernel.h"
#include "kernels/external/run/external_args.h"
#include "kernels/run/kernel.h"

namespace ingot::kernels {

// The function. Its library stays open. Error (device) if the file is missing, differs from the one that the plan was compiled with, or lacks the function.
ingot_kernel open_host_kernel(const std::string& kernel, const HostCode&);

// Calls it. Error (invalid_input) with its message if it returns anything but 0.
void call_host_kernel(ingot_kernel function, const std::string& kernel, std::span<const ingot_tensor> inputs, std::span<const ingot_tensor> outputs,
                      std::span<const ingot_kernel_number> numbers, Workers&);

// The step's numbers at these sizes.
std::vector<ingot_kernel_number> numbers_of(const ExternalArgs&, std::span<const int64_t> sizes);

// The "external" kernel of backends that run on the host.
extern const RunKernel external_host_kernel;

}  // namespace ingot::kernels
