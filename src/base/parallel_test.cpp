#include "base/parallel.h"

#include <gtest/gtest.h>

#include <time.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace ingot {
namespace {

TEST(Workers, EveryTaskOnce) {
  auto pool = make_pool(3);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::atomic<int>> seen(static_cast<size_t>(round % 17));
    pool->run(static_cast<int64_t>(seen.size()), [&](int64_t task, int worker) {
      ASSERT_LT(worker, pool->count());
      ++seen[static_cast<size_t>(task)];
    });
    for (auto& count : seen) ASSERT_EQ(count.load(), 1);
  }
}

TEST(Workers, FirstExceptionReachesTheCaller) {
  auto pool = make_pool(2);
  auto work = [&] {
    pool->run(100, [](int64_t task, int) {
      if (task == 7) throw std::runtime_error("seven");
    });
  };
  EXPECT_THROW(work(), std::runtime_error);
  std::atomic<int> count{0};
  pool->run(10, [&](int64_t, int) { ++count; });
  EXPECT_EQ(count.load(), 10);
}

TEST(Workers, BusyPoolServesOthersOnTheirOwnThread) {
  auto pool = make_pool(2);
  std::atomic<int64_t> total{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      for (int k = 0; k < 500; ++k) {
        pool->run(5, [&](int64_t task, int) { total += task; });
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(total.load(), 8 * 500 * 10);
}

TEST(Workers, CallersShareTheThreads) {
  auto one = make_pool(3), other = make_pool(2);
  std::atomic<int64_t> total{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 12; ++i) {  // more than the crew has slots
    callers.emplace_back([&, i] {
      Workers& pool = i % 2 == 0 ? *one : *other;
      for (int k = 0; k < 300; ++k) {
        pool.run(7, [&](int64_t task, int worker) {
          ASSERT_LT(worker, pool.count());
          total += task;
        });
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(total.load(), 12 * 300 * 21);
}

double seconds_of_core(int clock) {
  timespec spent{};
  ::clock_gettime(clock, &spent);
  return static_cast<double>(spent.tv_sec) + 1e-9 * static_cast<double>(spent.tv_nsec);
}

TEST(Workers, WhoWaitsSleeps) {
  constexpr auto long_task = std::chrono::milliseconds(100);
  auto pool = make_pool(2);
  for (int round = 0; round < 3; ++round) {
    std::atomic<bool> begun{false};
    double before = 0, after = 0;
    pool->run(2, [&](int64_t, int worker) {
      if (worker == 0) {  // the caller waits for the other, which sleeps in its task
        for (int i = 0; i < 1000 && !begun; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        before = seconds_of_core(CLOCK_PROCESS_CPUTIME_ID);
      } else {
        begun = true;
        std::this_thread::sleep_for(long_task);
      }
    });
    after = seconds_of_core(CLOCK_PROCESS_CPUTIME_ID);
    if (begun) {
      EXPECT_LT(after - before, 0.02);
    }
  }
  const double before = seconds_of_core(CLOCK_PROCESS_CPUTIME_ID);
  std::this_thread::sleep_for(long_task);
  EXPECT_LT(seconds_of_core(CLOCK_PROCESS_CPUTIME_ID) - before, 0.02);
}

TEST(Workers, NestedRunsOnTheWorker) {
  auto pool = make_pool(2);
  std::atomic<int> total{0};
  pool->run(4, [&](int64_t, int) { pool->run(3, [&](int64_t, int) { ++total; }); });
  EXPECT_EQ(total.load(), 12);
}

TEST(Workers, AWorkerNumberIsHeldByOneCallAtATime) {
  auto pool = make_pool(4);
  std::vector<std::atomic<int>> inside(static_cast<size_t>(pool->count()));
  for (int round = 0; round < 200; ++round) {
    pool->run(50, [&](int64_t, int worker) {
      ASSERT_EQ(inside[static_cast<size_t>(worker)]++, 0);
      inside[static_cast<size_t>(worker)]--;
    });
  }
}

TEST(Workers, EveryTaskMayThrow) {
  auto pool = make_pool(4);
  for (int round = 0; round < 200; ++round) {
    EXPECT_THROW(pool->run(50, [](int64_t task, int) { throw task; }), int64_t);
  }
}

TEST(Workers, AnExceptionLeavesTheNestedAndTheOuterRun) {
  auto pool = make_pool(3);
  EXPECT_THROW(pool->run(3,
                         [&](int64_t, int) {
                           pool->run(3, [](int64_t task, int) {
                             if (task == 1) throw std::runtime_error("inner");
                           });
                         }),
               std::runtime_error);
  std::atomic<int> count{0};
  pool->run(6, [&](int64_t, int) { ++count; });
  EXPECT_EQ(count.load(), 6);
}

TEST(Workers, NoTasksAndTheCallersThreadAlone) {
  EXPECT_EQ(inline_workers().count(), 1);
  inline_workers().run(0, [](int64_t, int) { FAIL(); });
  make_pool(2)->run(0, [](int64_t, int) { FAIL(); });
  std::thread::id self = std::this_thread::get_id();
  std::vector<int64_t> order;
  inline_workers().run(3, [&](int64_t task, int worker) {
    EXPECT_EQ(std::this_thread::get_id(), self);
    EXPECT_EQ(worker, 0);
    order.push_back(task);
  });
  EXPECT_EQ(order, (std::vector<int64_t>{0, 1, 2}));
}

}  // namespace
}  // namespace ingot
