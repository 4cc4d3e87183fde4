#include "base/parallel.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/fork.h"

namespace ingot {

namespace {

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t seen) { ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0); }
void futex_wake_all(std::atomic<uint32_t>& word) { ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0); }

class InlineWorkers final : public Workers {
 public:
  int count() const override { return 1; }
  void run(int64_t tasks, FunctionRef<void(int64_t, int)> fn) override {
    for (int64_t task = 0; task < tasks; ++task) fn(task, 0);
  }
};

// One parallel section: each worker has a range of the tasks, and helps with the others' when it is done with its own; the first
// exception is kept. Steps that cut the same rows into ranges so find them in the caches of the core that wrote them.
class Section {
 public:
  Section(FunctionRef<void(int64_t, int)> fn, int64_t tasks, int workers) : fn_(fn), ranges_(std::min(workers, most)) {
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
  static constexpr int most = 32;  // ranges; further workers share them
  struct alignas(64) Range {
    std::atomic<int64_t> task;
    int64_t end;
  };
  FunctionRef<void(int64_t, int)> fn_;
  int ranges_;
  std::atomic<bool> failed_{false};
  std::exception_ptr problem_{};
  Range next_[most];
};

// About 30 us on common machines: longer than the gap between two steps of a model, shorter than anyone minds.
constexpr int spins = 1500;

// The threads of a pool in one process.
class Crew {
 public:
  explicit Crew(int threads) : forks(fork_count()) {
    try {
      for (int i = 1; i < threads; ++i) threads_.emplace_back([this, i] { serve(i); });
    } catch (const std::exception&) {  // no memory or no number for another thread: those that are there do the work
    }
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew() {
    stop_.store(true);
    generation_.fetch_add(1);
    futex_wake_all(generation_);
    for (auto& thread : threads_) thread.join();
  }
  int count() const { return static_cast<int>(threads_.size()) + 1; }

  void run(int64_t tasks, FunctionRef<void(int64_t, int)> fn) {
    if (tasks <= 0) return;
    // One task, no threads, or a pool that serves another caller: this thread does it alone.
    if (tasks == 1 || threads_.empty() || busy_.test_and_set(std::memory_order_acquire)) {
      for (int64_t task = 0; task < tasks; ++task) fn(task, 0);
      return;
    }
    struct Release {
      std::atomic_flag& busy;
      ~Release() { busy.clear(std::memory_order_release); }
    } release{busy_};
    Section section(fn, tasks, count());
    section_ = &section;
    inside_.store(open, std::memory_order_release);
    generation_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) futex_wake_all(generation_);
    section.work(0);
    // All tasks are taken. Who still sleeps has none: a short section does not wait for it to wake.
    inside_.fetch_and(~open, std::memory_order_relaxed);
    for (int i = 0; inside_.load(std::memory_order_acquire) > 0; ++i) {
      if (i < spins) {
        pause();
      } else {
        ::sched_yield();
      }
    }
    section_ = nullptr;
    section.rethrow();
  }

  const uint32_t forks;  // of the process that it is in

 private:
  void serve(int worker) {
    uint32_t seen = 0;
    for (;;) {
      for (int i = 0; i < spins && generation_.load(std::memory_order_acquire) == seen; ++i) pause();
      while (generation_.load(std::memory_order_acquire) == seen) {
        sleepers_.fetch_add(1, std::memory_order_seq_cst);
        if (generation_.load(std::memory_order_seq_cst) == seen) futex_wait(generation_, seen);
        sleepers_.fetch_sub(1, std::memory_order_relaxed);
      }
      seen = generation_.load(std::memory_order_acquire);
      if (stop_.load()) return;
      if (!enter()) continue;
      section_->work(worker);
      inside_.fetch_sub(1, std::memory_order_release);
    }
  }
  // Counts this thread as one that works in the section, if that is still open. It may be a later one than the one that woke the thread.
  bool enter() {
    uint32_t now = inside_.load(std::memory_order_relaxed);
    while ((now & open) != 0) {
      if (inside_.compare_exchange_weak(now, now + 1, std::memory_order_acquire, std::memory_order_relaxed)) return true;
    }
    return false;
  }

  static constexpr uint32_t open = uint32_t{1} << 31;
  std::atomic_flag busy_;
  std::atomic<uint32_t> generation_{0}, inside_{0};  // inside_: how many threads work in the section besides the caller, and `open` while more may enter
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
  Section* section_ = nullptr;  // valid for those that are inside
  std::vector<std::thread> threads_;
};

// A child of fork() has none of its parent's threads: it makes its own when it first works.
class Pool final : public Workers {
 public:
  explicit Pool(int threads) : crew_(new Crew(threads)), count_(crew_.load()->count()) {}
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() override {
    if (Crew* crew = crew_.load(); crew->forks == fork_count()) delete crew;
  }
  int count() const override { return count_; }
  void run(int64_t tasks, FunctionRef<void(int64_t, int)> fn) override { crew().run(tasks, fn); }

 private:
  Crew& crew() {
    Crew* now = crew_.load(std::memory_order_acquire);
    while (now->forks != fork_count()) {
      auto fresh = std::make_unique<Crew>(count_);
      if (crew_.compare_exchange_strong(now, fresh.get())) now = fresh.release();  // the parent's is left as it lies: nobody can join its threads
    }
    return *now;
  }

  std::atomic<Crew*> crew_;
  int count_;
};

// torch's own threads: GOMP_parallel of the libgomp that is loaded already, so that two pools do not fight for the cores. In a child of fork() libgomp waits for
// the parent's threads for ever, if it has had any: there the caller works alone.
class GompWorkers final : public Workers {
 public:
  using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
  using Number = int (*)();
  GompWorkers(Parallel parallel, Number self, Number in_parallel, int threads) : parallel_(parallel), self_(self), in_parallel_(in_parallel), threads_(threads) {}
  int count() const override { return threads_; }
  void run(int64_t tasks, FunctionRef<void(int64_t, int)> fn) override {
    if (tasks <= 0) return;
    if (tasks == 1 || threads_ == 1 || fork_count() > 0 || in_parallel_()) {
      for (int64_t task = 0; task < tasks; ++task) fn(task, 0);
      return;
    }
    Section section(fn, tasks, threads_);
    struct Shared {
      Section* section;
      Number self;
    } shared{&section, self_};
    parallel_(
        [](void* data) {
          auto* s = static_cast<Shared*>(data);
          s->section->work(s->self());
        },
        &shared, static_cast<unsigned>(threads_), 0);
    section.rethrow();
  }

 private:
  Parallel parallel_;
  Number self_, in_parallel_;
  int threads_;
};

// CPU quota of the control group, in whole processors; 0 = none.
int cgroup_limit() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (file >> quota >> period && quota != "max" && period > 0) {
    return std::max(1, static_cast<int>(std::atof(quota.c_str()) / period + 0.5));
  }
  return 0;
}

}  // namespace

Workers& inline_workers() {
  static InlineWorkers workers;
  return workers;
}

int usable_threads() {
  cpu_set_t set;
  int threads = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : static_cast<int>(std::thread::hardware_concurrency());
  if (int limit = cgroup_limit()) threads = std::min(threads, limit);
  return std::max(1, threads);
}

std::unique_ptr<Workers> make_pool(int threads) { return std::make_unique<Pool>(threads > 0 ? threads : usable_threads()); }

std::unique_ptr<Workers> find_gomp_workers(int threads) {
  // Wheels of torch carry a copy with a mangled name, found through the symbol of a library already loaded.
  void* library = ::dlopen("libgomp.so.1", RTLD_NOW | RTLD_NOLOAD);
  std::string path;
  if (library == nullptr) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; path.empty() && std::getline(maps, line);) {
      size_t slash = line.find('/');
      if (slash != std::string::npos && line.find("/libgomp", slash) != std::string::npos) path = line.substr(slash);
    }
    if (!path.empty()) library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  }
  if (library == nullptr) return nullptr;
  auto parallel = reinterpret_cast<GompWorkers::Parallel>(::dlsym(library, "GOMP_parallel"));
  auto self = reinterpret_cast<GompWorkers::Number>(::dlsym(library, "omp_get_thread_num"));
  auto inside = reinterpret_cast<GompWorkers::Number>(::dlsym(library, "omp_in_parallel"));
  auto most = reinterpret_cast<GompWorkers::Number>(::dlsym(library, "omp_get_max_threads"));
  if (parallel == nullptr || self == nullptr || inside == nullptr || most == nullptr) return nullptr;
  return std::make_unique<GompWorkers>(parallel, self, inside, threads > 0 ? threads : std::max(1, most()));
}

}  // namespace ingot
