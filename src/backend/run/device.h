// The run-time half of a backend: runs steps and owns device memory. It knows no graphs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/function_ref.h"
#include "base/machine.h"
#include "base/timing.h"
#include "kernels/run/kernel.h"

namespace ingot::backend {

using kernels::Call;
using kernels::Resolved;
using kernels::RunKernel;
using kernels::TensorRef;

// Recorded work of a stream, to be replayed with the same addresses.
class Recording {
 public:
  virtual ~Recording() = default;
};

// A point in a stream's work.
class Point {
 public:
  virtual ~Point() = default;
};

// Runs a session's work in order; on the host each call runs at once. For one caller at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  // Uses the caller's stream from now on, in the form that the device's driver has; null is the default stream.
  virtual void set_stream(void* stream) = 0;
  // Copies from the host, to the host, or on the device. Data copied to the host is there after wait(). The source may be reused at once.
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  // Sets bytes of the device's memory to `value`.
  virtual void fill(void* to, uint8_t value, size_t bytes) = 0;
  // Waits for all work so far. Error if a kernel failed (an index out of range).
  virtual void wait() = 0;
  // Throws the same Error if it is already known; does not wait.
  virtual void check() = 0;
  // True if the caller is capturing its stream: work added now runs later, maybe many times.
  virtual bool recorded_by_caller() const = 0;
  // Only while recorded_by_caller(): the caller's recording, and all that is made of it, hold this. It is destroyed some time after they are gone.
  virtual void keep(std::shared_ptr<const void> what) const = 0;
  // Records `work`. Null if the device cannot record. Not allowed while the caller captures.
  virtual std::unique_ptr<Recording> record(FunctionRef<void()> work) = 0;
  virtual void replay(const Recording&) = 0;
  // Null if the device needs no points because each call runs at once.
  virtual std::unique_ptr<Point> new_point() const = 0;
  // Places the point after all work so far.
  virtual void set(Point&) const = 0;
  // Later work waits for the work before the point, which any stream of the device may have set.
  virtual void come_after(const Point&) const = 0;
  // Records the time at which all earlier work is done. nanoseconds() returns the times between successive marks since its last call.
  virtual void mark() = 0;
  virtual std::vector<int64_t> nanoseconds() = 0;
};

// A device that runs programs, with the device code of one plan. Threads share it.
class Backend {
 public:
  virtual ~Backend() = default;
  // Null for an unknown kernel.
  virtual const RunKernel* find(std::string_view kernel) const = 0;
  // Allocator of device memory, aligned to alignment(); null: kernels use host memory.
  virtual Allocator* memory() const = 0;
  virtual size_t alignment() const = 0;
  // Allocator of pinned (page-locked) host memory, which the device can copy while it computes; null if memory() is null.
  virtual Allocator* pinned() const { return nullptr; }
  // Bytes that memory() can still allocate.
  virtual size_t free_memory() const { return SIZE_MAX; }
  // True if kernels can access this address.
  virtual bool can_access(const void*) const = 0;
  virtual std::unique_ptr<Stream> new_stream() const = 0;
  // A stream that the caller does not use.
  virtual std::unique_ptr<Stream> new_own_stream() const { return new_stream(); }
  // Waits for all work on the device, in any stream.
  virtual void synchronize() const = 0;
  // The device's number; -1: the host.
  virtual int ordinal() const = 0;
  // Timing::machine of this device: the model and library versions on which times depend.
  virtual std::string machine() const = 0;
  // Per problem of its kernels' own choices, the one that was timed as the fastest on this device.
  using TimedChoices = std::map<std::string, std::string, std::less<>>;
  virtual const TimedChoices& timed() const;
  // For timing, in bytes: the memory that can be allocated, and the size of the device's cache.
  struct Room {
    size_t free = 0, cache = 0;
  };
  virtual Room room() const = 0;
};

// True if a kernel has to ask which of its choices this call wants.
bool has_choices(const Call&);
// The choice that the call wants for a problem of its kernel: that on trial, or the one that was timed as the fastest; empty: the usual one.
std::string_view wanted_choice(const Call&, std::string_view problem);

// The host backend, with the kernels listed in cpu/run/kernels.def.
const Backend& cpu_backend();
const RunKernel* find_cpu_kernel(std::string_view name);

// Device code of a plan for one architecture; it must outlive the construction of the backend.
struct CodeImage {
  bool portable = false;  // the driver translates it for its device; else machine code
  uint32_t architecture = 0;
  std::span<const std::string> kernels;
  std::span<const std::byte> image;
  // Machine code runs on its own generation from its own version on; portable code on every later device.
  bool runs_on(int device) const {
    auto of = static_cast<int>(architecture);
    return of <= device && (portable || of / 10 == device / 10);
  }
};

// A library that a backend finds on the machine.
struct FoundLibrary {
  std::string path, version;
};
struct DeviceLibrary {
  std::string_view name;   // in reports
  FoundLibrary (*find)();  // Error (device) if it is missing, (version) if it is too old
};
// A device of the machine, for reports.
struct DeviceDescription {
  std::string name, architecture;
  size_t memory;
};

// Peak rates of this machine with these workers: multiply-adds in registers (2 operations each) for f32 and for bf16 accumulated in f32, and reads from memory.
struct MachineLimits {
  double flops = 0, bf16_flops = 0, bytes_per_second = 0;
};
MachineLimits measure_limits(Workers& workers, double seconds);
// The rates of one core of this machine, and how long another worker takes to start: what `ingot doctor --keep` keeps. What cannot be measured here is the table's. Takes about so many seconds.
Machine measure_machine(Workers& workers, double seconds);

}  // namespace ingot::backend
