#include "base/lost_cores.h"

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <utility>

namespace ingot {

namespace {

using std::chrono::milliseconds;

// The system's scheduler gives slices of 1 to 4 ms. Who waits as long, and longer than the own work explains, waits for a thread that has no core.
constexpr auto a_slice = milliseconds(1);
constexpr int longest_imbalance = 3;  // the others' work over the caller's
// A thread asks the system at most once in this time: the question takes 0.84 us (AMD EPYC, Linux 6.18).
constexpr auto between_questions = milliseconds(1);
// Lost in a window. A neighbour that is niced by 10 takes a slice of 3 ms in 30, an equal one half of a core's time; in a short window the slice alone would look like an equal one.
constexpr auto window = milliseconds(50), much = milliseconds(15);
// A trial of torch's threads on a busy machine takes some 30 ms, 3 % of this.
constexpr auto busy_for = milliseconds(1000);

// getrusage has this too, but as it was at the last tick of the system.
LostCores::Clock::duration time_on_cores() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

long times_slept() {
  rusage use{};
  ::getrusage(RUSAGE_THREAD, &use);
  return use.ru_nvcsw;
}

}  // namespace

void LostCores::add(Clock::duration lost, Clock::time_point now) {
  const Clock::rep at = now.time_since_epoch().count(), begin = at - lost.count();
  if (begin - window_.load(std::memory_order_relaxed) > Clock::duration(window).count()) {
    window_.store(begin, std::memory_order_relaxed);
    lost_.store(0, std::memory_order_relaxed);
  }
  if (lost_.fetch_add(lost.count(), std::memory_order_relaxed) + lost.count() > Clock::duration(much).count())
    busy_until_.store(at + Clock::duration(busy_for).count(), std::memory_order_relaxed);
}

void LostCores::add_wait(Clock::time_point begin, Clock::time_point done, Clock::time_point now) {
  if (now - done > std::max<Clock::duration>(a_slice, longest_imbalance * (done - begin))) add(now - done, now);
}

void LostCores::add_without_core(Clock::time_point now) {
  thread_local Clock::time_point asked{};
  thread_local Clock::duration worked{};
  thread_local long slept = -1;
  if (now - asked < between_questions) return;
  const Clock::duration work = time_on_cores(), lost = now - std::exchange(asked, now) - (work - std::exchange(worked, work));
  const long sleeps = times_slept();
  if (std::exchange(slept, sleeps) == sleeps && lost >= a_slice) add(lost, now);
}

}  // namespace ingot
