// A GPU at run time: memory, streams, events and loaded code. Everything is in the device's primary context, which torch uses too, so that pointers and
// streams can be shared. Thread-safe. Errors are those of Driver::check.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <span>
#include <string>

#include "backend/cuda/run/driver.h"

namespace ingot::backend::cuda {

struct DeviceProperties {
  std::string name;
  int sm = 0;               // compute capability: 90 is 9.0
  int multiprocessors = 0;
  int threads = 0;          // that can be resident on one multiprocessor
  size_t memory = 0, l2 = 0;
  size_t shared_block = 0;  // bytes of shared memory that a block may request
  size_t shared_multiprocessor = 0;
  int driver = 0;           // CUDA version of the driver: 13000 is 13.0
};

int device_count();

class Device {
 public:
  // Error (invalid_input) if there is no device of this number, (device) if there is none at all.
  static std::shared_ptr<const Device> open(int ordinal);
  ~Device();
  Device(const Device&) = delete;
  const DeviceProperties& properties() const { return properties_; }
  int ordinal() const { return ordinal_; }
  size_t free_memory() const;
  void synchronize() const;

  // Makes the device's context current on this thread; the destructor restores the previous one.
  class Use {
   public:
    explicit Use(const Device&);
    ~Use();
    Use(const Use&) = delete;

   private:
    bool pushed_ = false;
  };

 private:
  explicit Device(int ordinal);
  int ordinal_, device_ = 0;
  Context context_ = nullptr;
  DeviceProperties properties_;
};
using DevicePtr = std::shared_ptr<const Device>;

// Held shared while a stream is recorded, and exclusively to wait for a whole device, which would break all recordings in progress.
std::shared_mutex& recordings();

// Allows memory to be allocated and freed while this process records a stream; this is not part of the recording.
class Unrecorded {
 public:
  Unrecorded();
  ~Unrecorded();
  Unrecorded(const Unrecorded&) = delete;
  Unrecorded& operator=(const Unrecorded&) = delete;

 private:
  int mode_;
};

class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(DevicePtr device, size_t bytes);  // 0 bytes: no memory
  DeviceMemory(DeviceMemory&& o) noexcept { swap(o); }
  DeviceMemory& operator=(DeviceMemory&& o) noexcept {
    swap(o);
    return *this;
  }
  ~DeviceMemory();
  Address address() const { return address_; }
  size_t size() const { return size_; }
  // Asynchronous for pinned host memory. Other host memory may be reused when the copy to the device returns, and read
  // after synchronising the copy from the device.
  void copy_from(const void* host, size_t bytes, StreamHandle stream = nullptr, size_t offset = 0);
  void copy_to(void* host, size_t bytes, StreamHandle stream = nullptr, size_t offset = 0) const;
  void fill(uint8_t value, StreamHandle stream = nullptr);

 private:
  void swap(DeviceMemory& o) noexcept {
    std::swap(device_, o.device_);
    std::swap(address_, o.address_);
    std::swap(size_, o.size_);
  }
  void inside(size_t offset, size_t bytes) const;
  DevicePtr device_;
  Address address_ = 0;
  size_t size_ = 0;
};

void copy_on_device(const Device&, Address to, Address from, size_t bytes, StreamHandle stream = nullptr);

class CudaStream {
 public:
  explicit CudaStream(DevicePtr device);
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  StreamHandle handle() const { return handle_; }
  void synchronize() const;
  void wait(const class Event&) const;

 private:
  DevicePtr device_;
  StreamHandle handle_ = nullptr;
};

class Event {
 public:
  // Only a timed event can be used to measure; the others are cheaper.
  explicit Event(DevicePtr device, bool timed = false);
  ~Event();
  Event(const Event&) = delete;
  void record(StreamHandle stream) const;
  void synchronize() const;
  EventHandle handle() const { return handle_; }
  // The time between two recorded events, once `to` has happened.
  static double seconds(const Event& from, const Event& to);

 private:
  DevicePtr device_;
  EventHandle handle_ = nullptr;
};

struct LaunchShape {
  uint32_t grid = 1, block = 1;  // along x; ingot's kernels use no other axis
  uint32_t shared = 0;           // bytes of dynamic shared memory
  bool overlaps = false;         // may start while the previous kernel ends: it waits itself before it accesses memory (prelude: after_others)
  uint32_t work_tiles = 0;           // work tiles that the blocks process one after another; 0: one per block
  uint32_t grid_y = 1, grid_z = 1, block_y = 1, block_z = 1;
};

class Function {
 public:
  Function() = default;
  // Starts the kernel. `parameters` are the bytes of its one parameter, a struct by value; or of several, which start at `places`.
  void launch(const LaunchShape&, std::span<const std::byte> parameters, StreamHandle stream, std::span<const size_t> places = {}) const;
  int registers() const;
  int local_bytes() const;  // bytes of spilled registers
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  friend class Module;
  DevicePtr device_;
  FunctionHandle handle_ = nullptr;
  std::string name_;
  bool waits_ = false;
};

// Loaded device code. Functions must not outlive it.
class Module {
 public:
  // `image`: a cubin, or null-terminated PTX, which the driver compiles. `cuda`: the CUDA version that compiled it (0: unknown). `architecture`: its target;
  // from 90 on kernels can wait by themselves. Error (device) with the driver's log; (version) if `cuda` is newer than the driver.
  Module(DevicePtr device, std::span<const std::byte> image, int cuda = 0, int architecture = 0);
  ~Module();
  Module(const Module&) = delete;
  Function function(const std::string& name) const;

 private:
  DevicePtr device_;
  ModuleHandle handle_ = nullptr;
  bool waits_;
};

}  // namespace ingot::backend::cuda
