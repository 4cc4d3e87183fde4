// The run-time half of a backend: what the runtime calls to run a step, and where its memory is. Knows no graphs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/function_ref.h"
#include "base/timing.h"
#include "kernels/run/kernel.h"

namespace ingot::backend {

using kernels::Call;
using kernels::Resolved;
using kernels::RunKernel;
using kernels::TensorRef;

// Work that a stream has recorded, to be done again at once with the same addresses.
class Recording {
 public:
  virtual ~Recording() = default;
};

// A place in a stream's work.
class Point {
 public:
  virtual ~Point() = default;
};

// Where a session's work goes, in order: a CUDA stream; on the CPU everything happens at once. One caller at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  // The caller's stream (a CUstream; null is the default one), from now on.
  virtual void set_stream(void* stream) = 0;
  // From or to the host, or on the device. What is copied to the host is there after wait(); memory copied from may be reused at once.
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  // Until everything so far is done. Error when a kernel could not go on (an index out of range).
  virtual void wait() = 0;
  // The same Error when it is known by now, without waiting.
  virtual void check() = 0;
  // The caller's stream is being recorded by the caller: what is done now is done later, maybe often.
  virtual bool recorded_by_caller() const = 0;
  // Null when the device has no such thing. Not while the caller records.
  virtual std::unique_ptr<Recording> record(FunctionRef<void()> work) = 0;
  virtual void replay(const Recording&) = 0;
  // Null when the device has no such thing: there all work is done when it is given.
  virtual std::unique_ptr<Point> new_point() const = 0;
  // The point is behind all work so far.
  virtual void set(Point&) const = 0;
  // All work from now on starts after the work before the point, which was set in any stream of the device.
  virtual void come_after(const Point&) const = 0;
  // Notes the time when all before is done; nanoseconds() are those between each mark and the next since it was asked last.
  virtual void mark() = 0;
  virtual std::vector<int64_t> nanoseconds() = 0;
};

// A device that programs run on, with the code of one plan. Shared by threads.
class Backend {
 public:
  virtual ~Backend() = default;
  // Null when unknown.
  virtual const RunKernel* find(std::string_view kernel) const = 0;
  // What kernels read and write, aligned to alignment(); null: memory of the host.
  virtual Allocator* memory() const = 0;
  virtual size_t alignment() const = 0;
  // Memory of the host that the device copies from and to while it does other work (page-locked); null where memory() is.
  virtual Allocator* pinned() const { return nullptr; }
  // Bytes that memory() still has.
  virtual size_t free_memory() const { return SIZE_MAX; }
  // Whether kernels can use what is at this address.
  virtual bool can_access(const void*) const = 0;
  virtual std::unique_ptr<Stream> new_stream() const = 0;
  // One whose work goes on beside that of every other stream.
  virtual std::unique_ptr<Stream> new_stream_apart() const { return new_stream(); }
  // Until all work on it so far is done, in whichever stream.
  virtual void synchronize() const = 0;
  // Its number; -1: the host.
  virtual int ordinal() const = 0;
  // What kernels have resolved on it so far and can be done in several ways: each is timed there, the most expensive one first, until the time is used up. What
  // `known` has is not timed again. Gives all that is known of them by then.
  virtual std::vector<Timing> time(std::span<const Timing> known, double seconds) const {
    static_cast<void>(known), static_cast<void>(seconds);
    return {};
  }
};

// The host, with the kernels listed in cpu/run/kernels.def.
const Backend& cpu_backend();
const RunKernel* find_cpu_kernel(std::string_view name);

// Code of a plan for one architecture; borrowed until the backend is made.
struct CodeImage {
  bool ptx = false;
  uint32_t architecture = 0;
  std::span<const std::string> kernels;
  std::span<const std::byte> image;
  // Machine code runs on its own generation, from its own version on; PTX on whatever is not older.
  bool runs_on(int sm) const {
    auto of = static_cast<int>(architecture);
    return of <= sm && (ptx || of / 10 == sm / 10);
  }
};
// A GPU of NVIDIA's, where what was timed on such a one is done as was the fastest. Error (device) without driver or GPU, (invalid_input) when it has fewer,
// (version) when the code is newer than the driver.
std::shared_ptr<const Backend> open_cuda(int ordinal, std::span<const CodeImage> code, std::span<const Timing> timings = {});
int cuda_architecture(int ordinal);
// Where libraries of the GPU are searched for after the system's own places: see cuda/symbols.h.
void set_library_folders(std::vector<std::string> folders);

// What this machine has for GPUs. Errors are those of the places that need it: (device) when it is missing, (version) when it is too old.
enum class GpuLibrary { driver, nvrtc, cublaslt };
struct FoundLibrary {
  std::string path, version;
};
FoundLibrary find_library(GpuLibrary which);
struct GpuDescription {
  std::string name;
  int architecture;  // 90 is sm_90
  size_t memory;
};
std::vector<GpuDescription> describe_gpus();

// The most this machine does with these workers: multiply-adds in registers (2 operations each), of f32 and of bf16 into f32, and reading memory.
struct MachineLimits {
  double flops = 0, bf16_flops = 0, bytes_per_second = 0;
};
MachineLimits measure_limits(Workers& workers, double seconds);

}  // namespace ingot::backend
