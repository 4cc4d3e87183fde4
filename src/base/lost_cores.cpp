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
// Lost in a window: a niced neighbour takes a tenth, an equal one a third to a half.
constexpr auto window = milliseconds(20), much = milliseconds(4);
// A trial of torch's threads on a busy machine takes some 20 ms: a fiftieth of this.
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

LostCores::Clock::duration without_core(LostCores::Clock::time_point now) {
  thread_local LostCores::Clock::time_point asked{};
  thread_local LostCores::Clock::duration worked{};
  thread_local long slept = -1;
  if (now - asked < between_questions) return {};
  const LostCores::Clock::duration work = time_on_cores(), lost = now - std::exchange(asked, now) - (work - std::exchange(worked, work));
  const long sleeps = times_slept();
  return std::exchange(slept, sleeps) != sleeps || lost < a_slice ? LostCores::Clock::duration{} : lost;
}

}  // namespace ingot
