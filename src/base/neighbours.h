// Whether other programs want the cores, by what the threads of this process have seen. Internal to base.
#pragma once
#include <atomic>
#include <chrono>

namespace ingot {

class Neighbours {
 public:
  using Clock = std::chrono::steady_clock;
  // For a thread that has worked: it asks the system now and then whether it was taken off its core.
  void look(Clock::time_point now);
  // A thread was off its core, or waited for one that was.
  void lost_core(Clock::time_point now);
  bool busy(Clock::time_point now) const { return now.time_since_epoch().count() < busy_until_.load(std::memory_order_relaxed); }

 private:
  std::atomic<Clock::rep> lost_at_{0}, busy_until_{0};
};

// Those of this process.
Neighbours& neighbours();

}  // namespace ingot
