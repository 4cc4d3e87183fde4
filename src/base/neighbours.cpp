#include "base/neighbours.h"

#include <sys/resource.h>

#include <utility>

namespace ingot {

namespace {

using std::chrono::milliseconds;

// A thread asks at most once in this time: the question takes 0.3 us.
constexpr auto between_looks = milliseconds(1);
// Two losses within this time are other programs: an endless loop takes a core each 3 to 6 ms, what a quiet machine does on its own about once a second.
constexpr auto between_losses = milliseconds(50);
// So long the machine counts as busy after that.
constexpr auto busy_for = milliseconds(1000);

}  // namespace

void Neighbours::look(Clock::time_point now) {
  thread_local Clock::time_point next{};
  thread_local long known = 0;
  if (now < next) return;
  next = now + between_looks;
  rusage use{};
  if (::getrusage(RUSAGE_THREAD, &use) != 0) return;
  if (std::exchange(known, use.ru_nivcsw) != use.ru_nivcsw) lost_core(now);
}

void Neighbours::lost_core(Clock::time_point now) {
  const Clock::rep at = now.time_since_epoch().count(), before = lost_at_.exchange(at, std::memory_order_relaxed);
  if (Clock::duration(at - before) < between_losses) busy_until_.store((now + busy_for).time_since_epoch().count(), std::memory_order_relaxed);
}

Neighbours& neighbours() {
  static Neighbours of_process;
  return of_process;
}

}  // namespace ingot
