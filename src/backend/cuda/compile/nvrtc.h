// Compiles CUDA C++ to device code with NVRTC, which needs no GPU. Part of the compiler; the runtime never uses it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ingot::backend::cuda {

struct CompileJob {
  enum class Form : uint8_t {
    cubin,  // machine code of sm_XX
    ptx,    // for the driver of any GPU from sm_XX on; null-terminated
  };
  std::string text;
  int sm = 90;
  Form form = Form::cubin;
  // Machine code may use instructions that only this architecture has (sm_90a). PTX never does, since later GPUs run it.
  bool special = false;
  std::string of = {};       // the operator of a registered kernel; else empty
};

struct CompileOptions {
  int threads = 0;           // 0 = as many as the process may use
  std::string cache_folder;  // empty = no cache
};

struct Compiled {
  std::vector<std::vector<std::byte>> code;  // one per job
  size_t from_cache = 0;
  std::string cache_problem;                 // why nothing could be cached; the code is valid
};

// The result comes from the cache if the same NVRTC has compiled the same text. Error (device) if NVRTC is missing; (internal, or invalid_input for a user's
// text) with NVRTC's log if the text does not compile; (unsupported) for an unknown architecture.
Compiled compile(std::span<const CompileJob> jobs, const CompileOptions& options = {});

struct NvrtcVersion {
  int major = 0, minor = 0;
};
NvrtcVersion nvrtc_version();         // Error (device) when it is missing
std::vector<int> nvrtc_architectures();  // 75, 80, ... 90

}  // namespace ingot::backend::cuda
