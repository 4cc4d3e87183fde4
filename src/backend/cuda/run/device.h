// A GPU at run time: its memory, streams, events and loaded code. Everything lives in the device's primary context, which is
// the one torch uses, so that pointers and streams can be shared with it. Thread-safe; errors are those of Driver::check.
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
  int threads = 0;          // resident on one multiprocessor
  size_t memory = 0, l2 = 0;
  size_t shared_block = 0;  // bytes of shared memory one block may ask for
  size_t shared_multiprocessor = 0;
  int driver = 0;           // CUDA version of the driver: 13000 is 13.0
};

int device_count();

class Device {
 public:
  // Error (invalid_input) when there is no such device, (device) when there is none at all.
  static std::shared_ptr<const Device> open(int ordinal);
  ~Device();
  Device(const Device&) = delete;
  const DeviceProperties& properties() const { return properties_; }
  int ordinal() const { return ordinal_; }
  size_t free_memory() const;
  void synchronize() const;

  // Makes the device's context current on this thread; the destructor puts back what was.
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

// Held together by those who record a stream, and alone by who waits for a whole device, which would spoil all recordings under way.
std::shared_mutex& recordings();

// Memory is taken and given back although this process records a stream somewhere: none of it is part of the recording.
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
  // Asynchronous for pinned host memory; other host memory may be used again when they return (to) or after synchronising (from).
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
  // Only an event that is timed can be measured with; the others are cheaper.
  explicit Event(DevicePtr device, bool timed = false);
  ~Event();
  Event(const Event&) = delete;
  void record(StreamHandle stream) const;
  void synchronize() const;
  EventHandle handle() const { return handle_; }
  // Between two recorded events, after `to` has happened.
  static double seconds(const Event& from, const Event& to);

 private:
  DevicePtr device_;
  EventHandle handle_ = nullptr;
};

struct LaunchShape {
  uint32_t grid = 1, block = 1;  // along x, which is all that ingot's kernels use
  uint32_t shared = 0;           // bytes of dynamic shared memory
  bool overlaps = false;         // may start while the kernel before it ends: it waits by itself before it touches memory (prelude: after_others)
  uint32_t pieces = 0;           // of work that the blocks do one after another; 0: one each
  uint32_t grid_y = 1, grid_z = 1, block_y = 1, block_z = 1;
};

class Function {
 public:
  Function() = default;
  // Starts the kernel. It takes one parameter, a struct by value: `parameters` are its bytes. Or several, which begin at these places in `parameters`.
  void launch(const LaunchShape&, std::span<const std::byte> parameters, StreamHandle stream, std::span<const size_t> places = {}) const;
  int registers() const;
  int local_bytes() const;  // registers that had to go to memory
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
  // `image`: a cubin, or PTX ending in 0, which the driver compiles. Error (device) with the driver's log, or (version) when `cuda`, the CUDA
  // it was compiled by, is newer than the driver (0: unknown). `architecture`: what it was compiled for; from 90 on kernels know how to wait.
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
