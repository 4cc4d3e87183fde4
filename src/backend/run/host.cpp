#include "backend/run/host.h"

#include <chrono>
#include <cstring>

namespace ingot::backend {

namespace {

class HostStream final : public Stream {
  using Time = std::chrono::steady_clock::time_point;
  void set_stream(void*) override {}
  void copy(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void fill(void* to, uint8_t value, size_t bytes) override {
    if (bytes > 0) std::memset(to, value, bytes);
  }
  void wait() override {}
  void check() override {}
  bool recorded_by_caller() const override { return false; }
  void keep(std::shared_ptr<const void>) const override {}
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

}  // namespace

const Backend::TimedChoices& Backend::timed() const {
  static const TimedChoices none;
  return none;
}

bool has_choices(const Call& call) { return call.trial != nullptr || (call.backend != nullptr && !call.backend->timed().empty()); }

std::string_view wanted_choice(const Call& call, std::string_view problem) {
  if (call.trial != nullptr && call.trial->problem == problem) return call.trial->choice;
  if (call.backend == nullptr) return {};
  const auto found = call.backend->timed().find(problem);
  return found == call.backend->timed().end() ? std::string_view() : found->second;
}

Host::Host(const RunKernel* (*find)(std::string_view), std::string machine, std::span<const Timing> timings) : find_(find), machine_(std::move(machine)) {
  for (const Timing& t : timings) {
    if (t.machine == machine_) timed_[t.problem] = t.choice;
  }
}

std::unique_ptr<Stream> Host::new_stream() const { return std::make_unique<HostStream>(); }

}  // namespace ingot::backend
