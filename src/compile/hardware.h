// Facts of GPUs, from the NVRTC User Guide of CUDA 13 (supported architectures). Nothing here is chosen.
#pragma once

namespace ingot::compile::hardware {

inline constexpr int oldest_gpu = 75;  // compute capability in units of a tenth, sm_75: CUDA 13 compiles for none before it, and docs/install.md says so

}  // namespace ingot::compile::hardware
