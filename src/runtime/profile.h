// Where the time of a run went: as a table and as a trace.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/executor.h"

namespace ingot::runtime {

// The time of one step in a profiled run.
struct Timed {
  const LoadedFunction* function;
  size_t step;
  std::string_view kernel;             // that ran: the step's, or an alternative
  int64_t nanoseconds, bytes;
  std::vector<int64_t> sizes;
};
// Appends the steps that the stream has timed since the last call.
void note_times(const Executor&, backend::Stream&, std::vector<Timed>& out);

struct Profile {
  std::vector<Timed> timed;
  int64_t call_nanoseconds = 0;  // on the calling thread
  // As JSON. `resolutions`: see Executor.
  std::string table(size_t resolutions) const;
  // Trace events for Perfetto and chrome://tracing: the call and the steps on the CPU, or steps on a track of the GPU.
  std::string trace(const LoadedFunction& called) const;
};

}  // namespace ingot::runtime
