#include "base/gomp_workers.h"

#include <dlfcn.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "base/fork.h"
#include "base/section.h"

namespace ingot {

namespace {

// torch's own threads: GOMP_parallel of the libgomp that is loaded already, so that two pools do not fight for the cores. In a child of fork() libgomp waits for
// the parent's threads for ever, if it has had any: there the caller works alone.
class GompWorkers final : public Workers {
 public:
  using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
  using Number = int (*)();
  GompWorkers(Parallel parallel, Number self, Number in_parallel, int threads, LostCores& lost)
      : parallel_(parallel), self_(self), in_parallel_(in_parallel), threads_(threads), lost_(lost) {}
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
      LostCores::Clock::time_point done{};  // when the caller's own work was
    } shared{&section, self_};
    const auto begin = LostCores::Clock::now();
    parallel_(
        [](void* data) {
          auto* s = static_cast<Shared*>(data);
          const int self = s->self();
          s->section->work(self);
          if (self == 0) s->done = LostCores::Clock::now();
        },
        &shared, static_cast<unsigned>(threads_), 0);
    lost_.add_without_core(shared.done);
    lost_.add_wait(begin, shared.done, LostCores::Clock::now());
    section.rethrow();
  }

 private:
  Parallel parallel_;
  Number self_, in_parallel_;
  int threads_;
  LostCores& lost_;
};

}  // namespace

std::unique_ptr<Workers> find_gomp_workers(int threads, LostCores& lost) {
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
  auto max_threads = reinterpret_cast<GompWorkers::Number>(::dlsym(library, "omp_get_max_threads"));
  if (parallel == nullptr || self == nullptr || inside == nullptr || max_threads == nullptr) return nullptr;
  return std::make_unique<GompWorkers>(parallel, self, inside, threads > 0 ? threads : std::clamp(max_threads(), 1, usable_threads()), lost);
}

}  // namespace ingot
