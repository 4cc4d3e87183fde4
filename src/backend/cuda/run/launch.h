// Adapts a kernel that is a list of launches to the runtime.
#pragma once
#include "backend/cuda/kernels/run/launches.h"

namespace ingot::kernels {

Resolved resolve_launches(const Call&, CudaLaunches (*launches)(const Call&, const CudaMachine&));
std::vector<Tunable> tunables_of_launches(const Call&, CudaLaunches (*launches)(const Call&, const CudaMachine&));
void run_launches(const Call&);

// RunKernel::resolve from a kernel's function that gives its launches.
template <CudaLaunches (*launches)(const Call&, const CudaMachine&)>
Resolved resolved(const Call& call) {
  return resolve_launches(call, launches);
}
// RunKernel::tunables from the same function.
template <CudaLaunches (*launches)(const Call&, const CudaMachine&)>
std::vector<Tunable> tunables(const Call& call) {
  return tunables_of_launches(call, launches);
}

}  // namespace ingot::kernels
