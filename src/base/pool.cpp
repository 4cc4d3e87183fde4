// A pool of threads that all callers of the process share.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/fork.h"
#include "base/lost_cores.h"
#include "base/parallel.h"
#include "base/section.h"

namespace ingot {

namespace {

using Clock = LostCores::Clock;
using std::chrono::microseconds;

// Microseconds that a thread spins before it sleeps: longer than the gap between two steps of a model, and than most between two calls.
constexpr int spin_us = 200;
// Looks whether there is work between two looks at the clock, some 1 to 5 us.
constexpr int rounds_of_a_look = 32;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // some tens of cycles, as the pause of x86-64; `yield` is none
#endif
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t seen) { ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0); }
void futex_wake_all(std::atomic<uint32_t>& word) { ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0); }

// Spins until ready() or for as long as it may; true if ready.
template <class Ready>
bool spin(Ready ready, int wait_us, const LostCores& lost) {
  auto rounds = [&] {
    for (int i = 0; i < rounds_of_a_look; ++i) {
      if (ready()) return true;
      pause();
    }
    return false;
  };
  if (rounds()) return true;
  for (const Clock::time_point begin = Clock::now();;) {
    if (rounds()) return true;
    const Clock::time_point now = Clock::now();
    if (now - begin >= microseconds(lost.busy(now) ? std::min(wait_us, spin_of_busy_us) : wait_us)) return false;
  }
}

// A place for one caller's section.
class alignas(64) Slot {
 public:
  bool take() { return !taken_.test_and_set(std::memory_order_acquire); }
  void open(Section& section, int workers, int wait_us) {
    section_ = &section;
    workers_ = workers;
    wait_us_ = wait_us;
    inside_.store(open_bit, std::memory_order_release);
  }
  // All tasks are taken. Who still sleeps has none: a short section does not wait for it to wake.
  void close(const LostCores& lost) {
    uint32_t now = inside_.fetch_and(~open_bit, std::memory_order_acquire) & ~open_bit;
    if (now != 0 && !spin([&] { return inside_.load(std::memory_order_acquire) == 0; }, wait_us_, lost)) {
      while (((now = inside_.fetch_or(asleep, std::memory_order_acquire)) & ~asleep) != 0) futex_wait(inside_, now | asleep);
    }
    taken_.clear(std::memory_order_release);
  }
  // What a thread of the pool does with a section: works in it if it is open and wants that many. Then wait_us is the section's.
  void work(int worker, int& wait_us) {
    uint32_t now = inside_.load(std::memory_order_relaxed);
    do {
      if ((now & open_bit) == 0) return;
    } while (!inside_.compare_exchange_weak(now, now + 1, std::memory_order_acquire, std::memory_order_relaxed));
    if (worker < workers_) {
      wait_us = wait_us_;
      section_->work(worker);
    }
    if (inside_.fetch_sub(1, std::memory_order_acq_rel) == (asleep | 1)) futex_wake_all(inside_);
  }

 private:
  static constexpr uint32_t open_bit = uint32_t{1} << 31, asleep = uint32_t{1} << 30;
  std::atomic_flag taken_;
  std::atomic<uint32_t> inside_{0};  // how many threads work in the section besides the caller; `open_bit` while more may enter; `asleep` while the caller sleeps
  Section* section_ = nullptr;       // this and the following are valid for those that are inside
  int workers_ = 0, wait_us_ = 0;
};

// True in a thread that works in a section: sections inside it run on its own.
thread_local bool in_section = false;

// The threads of a process.
class Crew {
 public:
  Crew() : forks(fork_count()) {}
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew() {
    stop_.store(true);
    generation_.fetch_add(1);
    futex_wake_all(generation_);
    for (auto& thread : threads_) thread.join();
  }
  // Called under the mutex of crew_of_process.
  void grow(int threads) {
    try {
      for (int i = static_cast<int>(threads_.size()) + 1; i < threads; ++i) threads_.emplace_back([this, i] { serve(i); });
    } catch (const std::exception&) {  // no memory or no number for another thread: those that are there do the work
    }
  }

  void run(int64_t tasks, int workers, int wait_us, FunctionRef<void(int64_t, int)> fn) {
    const auto slot = std::find_if(slots_.begin(), slots_.end(), [](Slot& s) { return s.take(); });
    if (slot == slots_.end()) {  // that many callers are enough for all cores
      for (int64_t task = 0; task < tasks; ++task) fn(task, 0);
      return;
    }
    Section section(fn, tasks, workers);
    slot->open(section, workers, wait_us);
    const int used = static_cast<int>(slot - slots_.begin()) + 1;
    for (int now = used_.load(std::memory_order_relaxed); now < used && !used_.compare_exchange_weak(now, used, std::memory_order_relaxed);) {
    }
    generation_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) futex_wake_all(generation_);
    in_section = true;
    const Clock::time_point begin = Clock::now();
    section.work(0);
    const Clock::time_point done = Clock::now();
    in_section = false;
    slot->close(lost_);
    lost_.add_wait(begin, done, Clock::now());
    section.rethrow();
  }

  const uint32_t forks;  // of the process that it is in

 private:
  void serve(int worker) {
    in_section = true;
    int wait_us = spin_us;
    for (uint32_t seen = 0;;) {
      spin([&] { return generation_.load(std::memory_order_acquire) != seen; }, wait_us, lost_);
      while (generation_.load(std::memory_order_acquire) == seen) {
        sleepers_.fetch_add(1, std::memory_order_seq_cst);
        if (generation_.load(std::memory_order_seq_cst) == seen) futex_wait(generation_, seen);
        sleepers_.fetch_sub(1, std::memory_order_relaxed);
      }
      seen = generation_.load(std::memory_order_acquire);
      if (stop_.load()) return;
      for (int i = 0, used = used_.load(std::memory_order_relaxed); i < used; ++i) slots_[static_cast<size_t>(i)].work(worker, wait_us);
    }
  }

  std::array<Slot, 8> slots_;
  alignas(64) std::atomic<uint32_t> generation_{0};  // grows with each section
  std::atomic<int> sleepers_{0}, used_{0};           // used_: slots that ever had a section
  std::atomic<bool> stop_{false};
  LostCores lost_;
  std::vector<std::thread> threads_;
};

// The crew of this process, with as many threads. It ends with its last pool. In a child of fork() the parent's has no threads: it is left as it is.
std::shared_ptr<Crew> crew_of_process(int threads) {
  static Mutex mutex;
  static std::weak_ptr<Crew> known;
  std::lock_guard lock(mutex);
  std::shared_ptr<Crew> crew = known.lock();
  if (crew == nullptr || crew->forks != fork_count()) {
    crew.reset(new Crew, [](Crew* c) {
      if (c->forks == fork_count()) delete c;
    });
    known = crew;
  }
  crew->grow(threads);
  return crew;
}

class Pool final : public Workers {
 public:
  Pool(int threads, int wait_us) : count_(threads), wait_us_(wait_us) {}
  int count() const override { return count_; }
  void run(int64_t tasks, FunctionRef<void(int64_t, int)> fn) override {
    if (tasks > 1 && count_ > 1 && !in_section) return crew().run(tasks, count_, wait_us_, fn);
    for (int64_t task = 0; task < tasks; ++task) fn(task, 0);
  }

 private:
  Crew& crew() {
    if (Crew* now = now_.load(std::memory_order_acquire); now != nullptr && now->forks == fork_count()) return *now;
    std::lock_guard lock(mutex_);
    crew_ = crew_of_process(count_);
    now_.store(crew_.get(), std::memory_order_release);
    return *crew_;
  }

  const int count_, wait_us_;
  std::atomic<Crew*> now_{nullptr};
  Mutex mutex_;
  std::shared_ptr<Crew> crew_;
};

}  // namespace

std::unique_ptr<Workers> make_pool(int threads, int wait_us) { return std::make_unique<Pool>(threads > 0 ? threads : usable_threads(), wait_us >= 0 ? wait_us : spin_us); }

}  // namespace ingot
