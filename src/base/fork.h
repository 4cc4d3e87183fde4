// fork(): a child has the memory of its parent and one thread, the one that forked. Locks that others held and threads that served are not there.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <shared_mutex>

namespace ingot {

// How many forks lie between this process and the one that loaded the library. What has threads compares it with what it was.
uint32_t fork_count();

namespace fork_detail {
// A thread that forks waits until no other is between these.
void enter();
void leave();
}  // namespace fork_detail

// A mutex that is free in a child, with what it guards whole: nobody forks while another thread holds it. For short sections that wait for no other
// thread, so not for Python's lock either.
template <class M>
class Forkable {
 public:
  void lock() {
    fork_detail::enter();
    mutex_.lock();
  }
  void unlock() {
    mutex_.unlock();
    fork_detail::leave();
  }
  void lock_shared() {
    fork_detail::enter();
    mutex_.lock_shared();
  }
  void unlock_shared() {
    mutex_.unlock_shared();
    fork_detail::leave();
  }

 private:
  M mutex_;
};
using Mutex = Forkable<std::mutex>;
using SharedMutex = Forkable<std::shared_mutex>;

// For long sections: others may fork meanwhile, and a child has a free mutex. What it guards must be whole at any time.
class LongMutex {
 public:
  LongMutex();
  LongMutex(const LongMutex&) = delete;
  LongMutex& operator=(const LongMutex&) = delete;
  ~LongMutex();
  void lock();
  void unlock() { held_->mutex.unlock(); }

 private:
  struct Of {
    uint32_t forks;
    std::mutex mutex;
  };
  std::atomic<Of*> now_;
  Of* held_ = nullptr;
};

}  // namespace ingot
