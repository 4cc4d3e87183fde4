// The host as a device: memory of the process, work that is done when the call returns.
#pragma once
#include "backend/run/device.h"

namespace ingot::backend {

class Host final : public Backend {
 public:
  // `timings`: those of other machines are ignored.
  Host(const RunKernel* (*find)(std::string_view), std::string machine, std::span<const Timing> timings = {});
  const RunKernel* find(std::string_view kernel) const override { return find_(kernel); }
  Allocator* memory() const override { return nullptr; }
  size_t alignment() const override { return 64; }
  bool can_access(const void*) const override { return true; }
  std::unique_ptr<Stream> new_stream() const override;
  void synchronize() const override {}
  int ordinal() const override { return -1; }
  std::string machine() const override { return machine_; }
  const TimedChoices& timed() const override { return timed_; }
  Room room() const override { return {SIZE_MAX / 2, 0}; }

 private:
  const RunKernel* (*find_)(std::string_view);
  std::string machine_;
  TimedChoices timed_;
};

}  // namespace ingot::backend
