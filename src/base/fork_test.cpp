#include "base/fork.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/parallel.h"

namespace ingot {
namespace {

// Runs it in a child, which has ten seconds: 0 when it says that all is well.
template <class F>
int in_child(F work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);
    ::_exit(work() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(Fork, APoolHasNewThreads) {
  auto pool = make_pool(3);
  auto works = [&] {
    std::vector<std::atomic<int>> seen(64);
    std::atomic<int> workers{0};
    // A section does not wait for a thread that has not started yet: rounds go on until each has had a task.
    int rounds = 0;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    for (; rounds < 50 || (workers != 7 && std::chrono::steady_clock::now() < end); ++rounds) {
      pool->run(64, [&](int64_t task, int worker) {
        ++seen[static_cast<size_t>(task)];
        workers |= 1 << worker;
        std::this_thread::yield();
      });
    }
    bool all = true;
    for (auto& count : seen) all &= count == rounds;
    return all && workers == 7;
  };
  ASSERT_TRUE(works());
  const uint32_t before = fork_count();
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(in_child([&] { return fork_count() == before + 1 && works() && in_child(works) == 0; }), 0);
  }
  EXPECT_TRUE(works());
  EXPECT_EQ(fork_count(), before);
  auto unused = make_pool(3);
  ASSERT_EQ(in_child([&] {
              unused.reset();
              pool.reset();
              return true;
            }),
            0);
}

TEST(Fork, LocksAreFreeInAChild) {
  Mutex one, inner;
  SharedMutex shared;
  LongMutex slow;
  int64_t left = 0, right = 0;  // the same whenever `one` is free
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        std::lock_guard in(one);
        ++left;
        std::shared_lock reads(shared);
        std::lock_guard deeper(inner);
        ++right;
      }
    });
  }
  threads.emplace_back([&] {
    while (!stop) {
      std::lock_guard in(slow);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  for (int i = 0; i < 300; ++i) {
    const int status = in_child([&] {
      std::lock_guard a(one), b(inner);
      std::lock_guard c(shared);
      std::lock_guard d(slow);
      return left == right;
    });
    ASSERT_EQ(status, 0) << i;
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  std::lock_guard in(slow);  // the parent's is the parent's still
}

}  // namespace
}  // namespace ingot
