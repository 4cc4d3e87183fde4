#include "base/parallel.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/gomp_workers.h"
#include "base/lost_cores.h"

namespace ingot {

namespace {

class InlineWorkers final : public Workers {
 public:
  int count() const override { return 1; }
  void run(int64_t tasks, FunctionRef<void(int64_t, int)> fn) override {
    for (int64_t task = 0; task < tasks; ++task) fn(task, 0);
  }
};

// Of this process: its models share torch's threads.
constinit LostCores lost_by_torchs_threads;

// torch's threads wait for one another in loops that keep the cores, so a section of theirs takes a slice of the scheduler when one of them has none.
class TorchOrOwn final : public Workers {
 public:
  TorchOrOwn(std::unique_ptr<Workers> torchs, std::unique_ptr<Workers> own) : torchs_(std::move(torchs)), own_(std::move(own)) {}
  int count() const override { return own_->count(); }
  void run(int64_t tasks, FunctionRef<void(int64_t, int)> fn) override {
    Workers& chosen = tasks > 1 && lost_by_torchs_threads.busy(LostCores::Clock::now()) ? *own_ : *torchs_;
    chosen.run(tasks, fn);
  }

 private:
  std::unique_ptr<Workers> torchs_, own_;
};

// INGOT_WAIT, -1 without it; Error (invalid_option) if it is not a number of microseconds.
int wait_of_environment() {
  const char* given = std::getenv("INGOT_WAIT");
  if (given == nullptr) return -1;
  int value = -1;
  const char* const end = given + std::strlen(given);
  if (const auto [to, problem] = std::from_chars(given, end, value); problem != std::errc() || to != end || value < 0 || value > max_wait_us)
    throw Error(Code::invalid_option, fmt::format("INGOT_WAIT is \"{}\"", given))
        .fix(fmt::format("give the microseconds that a waiting thread keeps its core, 0 to {}", max_wait_us));
  return value;
}

}  // namespace

Workers& inline_workers() {
  static InlineWorkers workers;
  return workers;
}

std::unique_ptr<Workers> make_workers(const Threads& threads) {
  const int wait_us = threads.wait_us >= 0 ? threads.wait_us : wait_of_environment();
  std::unique_ptr<Workers> torchs = find_gomp_workers(threads.count, lost_by_torchs_threads);
  if (torchs == nullptr) return make_pool(threads.count, wait_us);
  const int count = torchs->count();
  if (wait_us >= 0) return make_pool(count, wait_us);
  return std::make_unique<TorchOrOwn>(std::move(torchs), make_pool(count, spin_of_busy_us));
}

}  // namespace ingot
