// CUDA's driver (libcuda) as a table of functions. The few types are declared here, so that building needs no toolkit.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"

namespace ingot::backend::cuda {

using Address = uint64_t;  // of device memory
using Context = struct CUctx_st*;
using StreamHandle = struct CUstream_st*;  // null: the default stream. torch's name for it is cuda_stream
using EventHandle = struct CUevent_st*;
using ModuleHandle = struct CUmod_st*;
using FunctionHandle = struct CUfunc_st*;
using GraphHandle = struct CUgraph_st*;
using GraphExecHandle = struct CUgraphExec_st*;
using UserObjectHandle = struct CUuserObject_st*;

// CUlaunchConfig and CUlaunchAttribute of cuda.h.
struct LaunchAttribute {
  int id = 0, padding = 0;
  union {
    char room[64];
    int yes;
  };
};
struct LaunchConfig {
  unsigned gx = 1, gy = 1, gz = 1, bx = 1, by = 1, bz = 1, shared = 0;
  StreamHandle stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

struct Driver {
#define X(name, symbol, arguments) int(*name) arguments;
#include "backend/cuda/run/driver.def"

  // Throws if `error` is not success, with `what` failed and the driver's name and text of the error. Code::out_of_memory
  // for lack of device memory, else Code::device.
  template <class... A>
  void check(int error, fmt::format_string<A...> what, A&&... a) const {
    if (error != 0) failed(error, fmt::format(what, std::forward<A>(a)...));
  }
  [[noreturn]] void failed(int error, const std::string& what) const;
};

// 13000 as "13.0".
std::string cuda_text(int version);

// Loads and initialises the driver on first use. Error (device) if there is none or it has no GPU, (version) if it is too old.
const Driver& driver();
// False in a child of a process that used the driver: there each function returns CUDA_ERROR_NOT_INITIALIZED, which `check` explains.
bool driver_usable();

}  // namespace ingot::backend::cuda
