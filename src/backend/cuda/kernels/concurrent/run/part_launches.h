// How a kernel's steps become parts of one. A kernel that is JOINED in cuda/run/kernels.def has such a constant, <name>_part.
#pragma once
#include "backend/cuda/kernels/run/launches.h"

namespace ingot::kernels {

struct PartLaunches {
  decltype(RunKernel::load) load;
  CudaLaunches (*launches)(const Call&, const CudaMachine&);
  WantedChoices (*choices)(std::span<const Call>, const CudaMachine&) = nullptr;  // of all parts together; null or no choices: each chooses for its share of the multiprocessors
};

}  // namespace ingot::kernels
