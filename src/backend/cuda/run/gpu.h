// The CUDA backend at run time: memory, the kernels of a plan's code, streams.
#pragma once
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/run/cublaslt.h"
#include "backend/cuda/run/device.h"
#include "backend/run/device.h"

namespace ingot::backend::cuda {

class Gpu final : public Backend {
 public:
  Gpu(int ordinal, std::span<const CodeImage> code, std::span<const Timing> timings = {});
  ~Gpu() override;
  const RunKernel* find(std::string_view kernel) const override;
  Allocator* memory() const override { return memory_.get(); }
  Allocator* pinned() const override { return pinned_.get(); }
  size_t free_memory() const override { return device_->free_memory(); }
  size_t alignment() const override { return 256; }
  bool can_access(const void*) const override;
  std::unique_ptr<Stream> new_stream() const override;
  void synchronize() const override { device_->synchronize(); }
  int ordinal() const override { return device_->ordinal(); }
  std::unique_ptr<Stream> new_own_stream() const override;
  std::string machine() const override { return products().machine(); }
  Room room() const override { return {device_->free_memory(), device_->properties().l2}; }

  const DevicePtr& device() const { return device_; }
  // A kernel of the plan's code. Error (version) if there is none of this name.
  Function function(const std::string& name) const;
  bool has_code(const std::string& kernel) const { return module_of_.contains(kernel); }
  // cuBLASLt, started on first use.
  const Products& products() const;
  // Timing::machine for the choices of ingot's own kernels. Their text is part of Timing::problem.
  const std::string& own_machine() const { return device_->properties().name; }
  const TimedChoices& timed() const override { return timed_; }

 private:
  DevicePtr device_;
  std::unique_ptr<Allocator> memory_, pinned_;
  std::vector<std::unique_ptr<Module>> modules_;
  std::map<std::string, const Module*, std::less<>> module_of_;
  std::vector<Timing> timings_;
  TimedChoices timed_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<Products> products_;
};

// The report of a kernel that failed: the kernel writes it once, the host reads it.
struct Status {
  uint64_t code = 0, found = 0, bound = 0;
};

class GpuStream final : public Stream {
 public:
  explicit GpuStream(DevicePtr device, std::unique_ptr<CudaStream> own = nullptr);
  ~GpuStream() override;
  void set_stream(void* stream) override { stream_ = static_cast<StreamHandle>(stream); }
  void copy(void* to, const void* from, size_t bytes) override;
  void fill(void* to, uint8_t value, size_t bytes) override;
  void wait() override;
  void check() override;
  bool recorded_by_caller() const override;
  void keep(std::shared_ptr<const void> what) const override;
  std::unique_ptr<Recording> record(FunctionRef<void()> work) override;
  void replay(const Recording&) override;
  std::unique_ptr<Point> new_point() const override;
  void set(Point&) const override;
  void come_after(const Point&) const override;
  void mark() override;
  std::vector<int64_t> nanoseconds() override;

  const DevicePtr& device() const { return device_; }
  StreamHandle handle() const { return stream_; }
  // True if a kernel that is started now may overlap the one before it. False right after the stream has waited for another stream: in a CUDA graph the kernel
  // would depend on that work too, and such an overlapping dependency is only possible on a kernel.
  bool may_overlap() { return !std::exchange(met_others_, false); }
  Address status() const { return reinterpret_cast<Address>(status_); }

 private:
  DevicePtr device_;
  std::unique_ptr<CudaStream> own_;
  StreamHandle stream_ = nullptr;
  std::unique_ptr<CudaStream> recorder_;  // records work; the default stream cannot
  Status* status_ = nullptr;          // host memory that the GPU writes
  std::vector<std::unique_ptr<Event>> events_;
  size_t marks_ = 0;
  mutable bool met_others_ = false;  // the stream has waited for another one since the last kernel
};

}  // namespace ingot::backend::cuda
