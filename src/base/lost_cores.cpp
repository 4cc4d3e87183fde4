#include "base/lost_cores.h"

#include <sys/resource.h>

#include <algorithm>

namespace ingot {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// The system's scheduler gives slices of 1 to 4 ms: who waits longer than that, and than the own work explains, waits for a thread that has no core.
constexpr auto long_wait = milliseconds(1);
constexpr int longest_imbalance = 3;  // the others' work over the caller's
// A thread asks the system at most once in this time: the question takes 0.3 us (AMD EPYC, Linux 6.18).
constexpr auto between_questions = milliseconds(1);
// Times of the system are exact to some 10 us.
constexpr auto least_loss = microseconds(200);
// Lost in a window: a niced neighbour takes a tenth, an equal one a third to a half.
constexpr auto window = milliseconds(20), much = milliseconds(4);
// A trial of torch's threads on a busy machine takes some 20 ms: a fiftieth of this.
constexpr auto busy_for = milliseconds(1000);

microseconds of(const timeval& t) { return std::chrono::seconds(t.tv_sec) + microseconds(t.tv_usec); }

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
  if (now - done > std::max<Clock::duration>(long_wait, longest_imbalance * (done - begin))) add(now - done, now);
}

LostCores::Clock::duration without_core(LostCores::Clock::time_point now) {
  thread_local LostCores::Clock::time_point asked{};
  thread_local microseconds worked{};
  thread_local long sleeps = -1;
  if (now - asked < between_questions) return {};
  rusage use{};
  if (::getrusage(RUSAGE_THREAD, &use) != 0) return {};
  const microseconds work = of(use.ru_utime) + of(use.ru_stime);
  const LostCores::Clock::duration lost = (now - asked) - (work - worked);
  const bool slept = sleeps != use.ru_nvcsw;
  asked = now, worked = work, sleeps = use.ru_nvcsw;
  return slept || lost < least_loss ? LostCores::Clock::duration{} : lost;
}

}  // namespace ingot
