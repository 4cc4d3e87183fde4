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

struct Threads {
  int count = 0;     // 0: torch's number inside torch, at most what the process may use
  int wait_us = -1;  // microseconds that a waiting thread of make_pool keeps its core before it sleeps; -1: INGOT_WAIT in the environment, else 200
};

// The calling thread alone.
Workers& inline_workers();
// Inside torch its threads while the cores are free for them, since they keep the cores for some milliseconds after each of torch's operators; make_pool's while other programs want
// the cores, and outside torch.
std::unique_ptr<Workers> make_workers(const Threads&);
// Threads of ingot's own, which all pools of the process share; they start with the first section. A thread that waits keeps its core for `wait_us`, and only for some
// microseconds while other programs want the cores; then it sleeps. Nobody waits for a thread that has not begun. 0 threads = as many as the process may use.
std::unique_ptr<Workers> make_pool(int threads, int wait_us = -1);
// torch's libgomp when it is loaded in this process, else null.
std::unique_ptr<Workers> find_gomp_workers(int threads);
// Threads this process may use: affinity, and the quotas of its control groups.
int usable_threads();

}  // namespace ingot
