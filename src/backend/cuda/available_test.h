// What tests of CUDA code need and a machine may lack.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "backend/cuda/compile/nvrtc.h"
#include "backend/cuda/run/device.h"
#include "base/error.h"

namespace ingot::backend::cuda {

// Why something cannot be tested here; empty if it can.
inline std::string nvrtc_missing() {
  try {
    nvrtc_version();
    return {};
  } catch (const Error& e) {
    return e.message + "; " + e.remedy;
  }
}
inline std::string gpu_missing() {
  try {
    return device_count() > 0 ? std::string() : "this process sees no GPU";
  } catch (const Error& e) {
    return e.message + "; " + e.remedy;
  }
}

}  // namespace ingot::backend::cuda

#define SKIP_WITHOUT(what) \
  if (std::string why = ::ingot::backend::cuda::what##_missing(); !why.empty()) GTEST_SKIP() << why
