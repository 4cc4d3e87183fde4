#include "base/fork.h"

#include <pthread.h>
#include <sched.h>

namespace ingot {

namespace {

std::atomic<uint32_t> forks{0};
std::atomic<int> inside{0};   // threads
std::atomic<int> forking{0};  // threads that wait for them
thread_local int depth = 0;   // of sections within sections

int own() { return depth > 0 ? 1 : 0; }

// When the library is loaded: one that is built on it registers later, so its sections, which may enter sections of this one, are waited for first.
[[maybe_unused]] const int registered = ::pthread_atfork(
    [] {
      forking.fetch_add(1);
      while (inside.load() > own()) ::sched_yield();
    },
    [] { forking.fetch_sub(1); },
    [] {
      forking.store(0);
      inside.store(own());
      forks.fetch_add(1);
    });

}  // namespace

uint32_t fork_count() { return forks.load(std::memory_order_relaxed); }

void fork_detail::enter() {
  if (depth++ > 0) return;
  for (;;) {
    inside.fetch_add(1);
    if (forking.load() == 0) return;
    inside.fetch_sub(1);
    while (forking.load() > 0) ::sched_yield();
  }
}

void fork_detail::leave() {
  if (--depth == 0) inside.fetch_sub(1);
}

LongMutex::LongMutex() : now_(new Of{fork_count(), {}}) {}

LongMutex::~LongMutex() { delete now_.load(); }

void LongMutex::lock() {
  Of* now = now_.load();
  while (now->forks != fork_count()) {
    Of* fresh = new Of{fork_count(), {}};  // the parent's may be locked for ever: it is left alone
    if (now_.compare_exchange_strong(now, fresh)) {
      now = fresh;
    } else {
      delete fresh;
    }
  }
  now->mutex.lock();
  held_ = now;
}

}  // namespace ingot
