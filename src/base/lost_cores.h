// Whether other programs want the cores, by the time that callers of sections have lost to them. Internal to base.
#pragma once
#include <atomic>
#include <chrono>

namespace ingot {

class LostCores {
 public:
  using Clock = std::chrono::steady_clock;
  // The caller of a section worked from begin to done and then waited for the others until now.
  void add_wait(Clock::time_point begin, Clock::time_point done, Clock::time_point now);
  // The caller asks how long it was without a core since it asked last, if it did not sleep in between.
  void add_without_core(Clock::time_point now);
  // True for a second after callers lost three tenths of their time.
  bool busy(Clock::time_point now) const { return now.time_since_epoch().count() < busy_until_.load(std::memory_order_relaxed); }

 private:
  void add(Clock::duration lost, Clock::time_point now);
  std::atomic<Clock::rep> window_{0}, lost_{0}, busy_until_{0};  // window_: when the time began in which lost_ was lost
};

}  // namespace ingot
