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

// The calling thread alone.
Workers& inline_workers();
// A pool of its own: threads spin briefly, then sleep. A caller that finds it busy runs on its own thread. 0 = as many as the process may use.
std::unique_ptr<Workers> make_pool(int threads);
// torch's libgomp when it is loaded in this process, else null.
std::unique_ptr<Workers> find_gomp_workers(int threads);
// Threads this process may use: affinity and cgroup.
int usable_threads();

}  // namespace ingot
