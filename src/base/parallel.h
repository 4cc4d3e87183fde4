// Work on several threads: a list of tasks. Each worker begins with its own range of them, the same one in every section of as many tasks.
#pragma once
#include <cstdint>
#include <memory>

#include "base/function_ref.h"

namespace ingot {

class Workers {
 public:
  virtual ~Workers() = default;
  // How many threads take part, the caller included; at least 1.
  virtual int count() const = 0;
  // Calls fn(task, worker) for every task in [0, tasks); worker is in [0, count()) and no two calls at a time share one.
  // Returns when all are done. The first exception of fn is rethrown here.
  virtual void run(int64_t tasks, FunctionRef<void(int64_t task, int worker)> fn) = 0;
};

inline constexpr int max_wait_us = 1'000'000;
// Microseconds that a waiting thread keeps its core while other programs want it: a tenth of what it takes to fall asleep and wake (50 us).
inline constexpr int spin_of_busy_us = 5;

struct Threads {
  int count = 0;     // 0: torch's number inside torch, at most what the process may use
  int wait_us = -1;  // microseconds that a waiting thread keeps its core before it sleeps; -1: INGOT_WAIT in the environment, else as is best
};

// The calling thread alone.
Workers& inline_workers();
// make_pool's outside torch, and where wait_us or INGOT_WAIT is given. Else inside torch its threads, which keep the cores for some milliseconds after each operator of torch; make_pool's
// while other programs want the cores, because torch's threads wait in loops that keep a core.
std::unique_ptr<Workers> make_workers(const Threads&);
// Threads of ingot's own, which all pools of the process share; they start with the first section. A thread that waits keeps its core for `wait_us` (-1: 200), and for spin_of_busy_us while
// other programs want the cores; then it sleeps. Nobody waits for a thread that has not begun. 0 threads = as many as the process may use.
std::unique_ptr<Workers> make_pool(int threads, int wait_us = -1);
// Threads this process may use: affinity, and the quotas of its control groups.
int usable_threads();

}  // namespace ingot
