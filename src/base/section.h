// One parallel section of Workers. Internal to base.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>

#include "base/function_ref.h"

namespace ingot {

// One parallel section: each worker has a range of the tasks, and helps with the others' when it is done with its own; the first
// exception is kept. Steps that cut the same rows into ranges so find them in the caches of the core that wrote them.
class Section {
 public:
  Section(FunctionRef<void(int64_t, int)> fn, int64_t tasks, int workers) : fn_(fn), ranges_(std::min(workers, max_ranges)) {
    for (int r = 0; r < ranges_; ++r) {
      next_[r].task.store(tasks * r / ranges_, std::memory_order_relaxed);
      next_[r].end = tasks * (r + 1) / ranges_;
    }
  }

  void work(int worker) {
    try {
      for (int i = 0; i < ranges_; ++i) {
        Range& range = next_[(worker + i) % ranges_];
        // Read before it is added to, so that many visits cannot overflow it.
        while (range.task.load(std::memory_order_relaxed) < range.end) {
          const int64_t task = range.task.fetch_add(1, std::memory_order_relaxed);
          if (task < range.end) fn_(task, worker);
        }
      }
    } catch (...) {
      if (!failed_.exchange(true)) problem_ = std::current_exception();
      for (int r = 0; r < ranges_; ++r) next_[r].task.store(next_[r].end, std::memory_order_relaxed);
    }
  }
  // After all workers are back.
  void rethrow() const {
    if (failed_) std::rethrow_exception(problem_);
  }

 private:
  static constexpr int max_ranges = 32;  // ranges; further workers share them
  struct alignas(64) Range {
    std::atomic<int64_t> task;
    int64_t end;
  };
  FunctionRef<void(int64_t, int)> fn_;
  int ranges_;
  std::atomic<bool> failed_{false};
  std::exception_ptr problem_{};
  Range next_[max_ranges];
};

}  // namespace ingot
