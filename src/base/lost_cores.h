// Whether other programs want the cores, by the time that threads of this process have lost to them. Internal to base.
#pragma once
#include <atomic>
#include <chrono>

namespace ingot {

class LostCores {
 public:
  using Clock = std::chrono::steady_clock;
  void add(Clock::duration lost, Clock::time_point now);
  // The caller of a section worked from begin to done and then waited for the others until now.
  void add_wait(Clock::time_point begin, Clock::time_point done, Clock::time_point now);
  // True for a second after more than a fifth of the time was lost.
  bool busy(Clock::time_point now) const { return now.time_since_epoch().count() < busy_until_.load(std::memory_order_relaxed); }

 private:
  std::atomic<Clock::rep> window_{0}, lost_{0}, busy_until_{0};  // window_: when the time began in which lost_ was lost
};

// How long this thread was without a core since the last question, if it did not sleep and the question is a millisecond old; else 0.
LostCores::Clock::duration without_core(LostCores::Clock::time_point now);

}  // namespace ingot
