#include "backend/run/device.h"

#include <chrono>
#include <cstring>

namespace ingot::kernels {
#define X(name) std::span<const RunKernel> name##_cpu_kernels();
#include "backend/cpu/run/kernels.def"
#undef X
}  // namespace ingot::kernels

namespace ingot::backend {

const RunKernel* find_cpu_kernel(std::string_view name) {
#define X(folder) \
  for (const RunKernel& k : kernels::folder##_cpu_kernels()) { \
    if (k.name == name) return &k; \
  }
#include "backend/cpu/run/kernels.def"
#undef X
  return nullptr;
}

namespace {

class HostStream final : public Stream {
  using Time = std::chrono::steady_clock::time_point;
  void set_stream(void*) override {}
  void copy(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void wait() override {}
  void check() override {}
  bool recorded_by_caller() const override { return false; }
  std::unique_ptr<Recording> record(FunctionRef<void()>) override { return nullptr; }
  void replay(const Recording&) override {}
  std::unique_ptr<Point> new_point() const override { return nullptr; }
  void set(Point&) const override {}
  void come_after(const Point&) const override {}
  void mark() override { marks_.push_back(std::chrono::steady_clock::now()); }
  std::vector<int64_t> nanoseconds() override {
    std::vector<int64_t> out;
    for (size_t i = 1; i < marks_.size(); ++i) out.push_back(std::chrono::nanoseconds(marks_[i] - marks_[i - 1]).count());
    marks_.clear();
    return out;
  }
  std::vector<Time> marks_;
};

class Host final : public Backend {
  const RunKernel* find(std::string_view kernel) const override { return find_cpu_kernel(kernel); }
  Allocator* memory() const override { return nullptr; }
  size_t alignment() const override { return 64; }
  bool can_access(const void*) const override { return true; }
  std::unique_ptr<Stream> new_stream() const override { return std::make_unique<HostStream>(); }
  void synchronize() const override {}
  int ordinal() const override { return -1; }
};

}  // namespace

const Backend& cpu_backend() {
  static const Host host;
  return host;
}

}  // namespace ingot::backend
