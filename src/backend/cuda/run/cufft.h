// Fourier transforms by cuFFT, which is found at run time.
#pragma once
#include <cstddef>

#include "backend/cuda/kernels/run/launches.h"
#include "backend/cuda/run/device.h"

namespace ingot::backend::cuda {

// False if cuFFT is missing or too old; says once why, and what to do.
bool has_cufft();

// A plan of cuFFT, with memory of its own for tables. What is recorded of run() reads these tables. For one caller at a time.
class Transform {
 public:
  // Error (device) if cuFFT is missing or cannot do it, (out_of_memory).
  Transform(DevicePtr, const kernels::CudaTransform&);
  ~Transform();
  Transform(const Transform&) = delete;
  size_t workspace() const { return workspace_; }
  // Real numbers are written over those that they are made of.
  void run(Address from, Address to, Address workspace, StreamHandle stream) const;

 private:
  explicit Transform(DevicePtr device);
  DevicePtr device_;
  int plan_ = 0, direction_ = -1;  // forward; 1 is inverse
  size_t workspace_ = 0;
};

}  // namespace ingot::backend::cuda
