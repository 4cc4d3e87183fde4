#include "base/parallel.h"

#include <algorithm>
#include <utility>

#include "base/neighbours.h"

namespace ingot {

namespace {

class InlineWorkers final : public Workers {
 public:
  int count() const override { return 1; }
  void run(int64_t tasks, FunctionRef<void(int64_t, int)> fn) override {
    for (int64_t task = 0; task < tasks; ++task) fn(task, 0);
  }
};

// torch's threads wait for one another in loops that keep the cores, so a section of theirs takes a slice of the scheduler when one of them has none.
class TorchOrOwn final : public Workers {
 public:
  TorchOrOwn(std::unique_ptr<Workers> torchs, std::unique_ptr<Workers> own) : torchs_(std::move(torchs)), own_(std::move(own)) {}
  int count() const override { return own_->count(); }
  void run(int64_t tasks, FunctionRef<void(int64_t, int)> fn) override {
    Workers& chosen = tasks > 1 && neighbours().busy(Neighbours::Clock::now()) ? *own_ : *torchs_;
    chosen.run(tasks, fn);
  }

 private:
  std::unique_ptr<Workers> torchs_, own_;
};

}  // namespace

Workers& inline_workers() {
  static InlineWorkers workers;
  return workers;
}

std::unique_ptr<Workers> make_workers(const Threads& threads) {
  std::unique_ptr<Workers> torchs = find_gomp_workers(threads.count);
  if (torchs == nullptr) return make_pool(threads.count, threads.wait_us);
  const int count = threads.count > 0 ? threads.count : std::min(torchs->count(), usable_threads());
  if (count != torchs->count()) torchs = find_gomp_workers(count);
  return std::make_unique<TorchOrOwn>(std::move(torchs), make_pool(count, threads.wait_us));
}

}  // namespace ingot
