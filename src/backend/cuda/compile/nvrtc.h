// CUDA C++ to device code with NVRTC, which needs no GPU. Part of the compiler: the runtime alone never gets here.
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
    ptx,    // for the driver of any GPU from sm_XX on; ends in 0
  };
  std::string text;
  int sm = 90;
  Form form = Form::cubin;
  // Machine code may use what this architecture alone has (sm_90a); PTX never does, since later GPUs run it.
  bool special = false;
  std::string of = {};       // the operator whose kernel this is, where it is the user's
};

struct CompileOptions {
  int threads = 0;           // 0 = as many as the process may use
  std::string cache_folder;  // empty = no cache
};

struct Compiled {
  std::vector<std::vector<std::byte>> code;  // one for each job
  size_t from_cache = 0;
  std::string cache_problem;                 // why nothing could be kept; the code is good all the same
};

// Results come from the cache when the same text was compiled before by the same NVRTC. Error (device)
// when NVRTC is missing; (internal, or invalid_input where the text is the user's) with NVRTC's log when the text does not compile; (unsupported) for an architecture it does
// not know.
Compiled compile(std::span<const CompileJob> jobs, const CompileOptions& options = {});

struct NvrtcVersion {
  int major = 0, minor = 0;
};
NvrtcVersion nvrtc_version();         // Error (device) when it is missing
std::vector<int> nvrtc_architectures();  // 75, 80, ... 90

}  // namespace ingot::backend::cuda
