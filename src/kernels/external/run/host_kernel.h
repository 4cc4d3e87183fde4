// An external kernel on the host: its library, and a call of its function (include/ingot/kernel.h). The backends of the host share it.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ingot/kernel.h"
#include "kernels/external/run/external_args.h"
#include "kernels/run/kernel.h"

namespace ingot::kernels {

// The function, in a library that stays open. Error (device) where the file is missing, is not the one that the plan was compiled with, or has no such function.
ingot_kernel open_host_kernel(const std::string& kernel, const HostCode&);

// Calls it. Error (invalid_input) with its message where it returns other than 0.
void call_host_kernel(ingot_kernel function, const std::string& kernel, std::span<const ingot_tensor> inputs, std::span<const ingot_tensor> outputs,
                      std::span<const ingot_kernel_number> numbers, Workers&);

// The numbers of a step at its sizes.
std::vector<ingot_kernel_number> numbers_of(const ExternalArgs&, std::span<const int64_t> sizes);

// "external" for backends of the host.
extern const RunKernel external_host_kernel;

}  // namespace ingot::kernels
