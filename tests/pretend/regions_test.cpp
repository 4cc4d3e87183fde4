// A function with regions on a pretended GPU, and every failure. Kernels compute nothing there, so a size that is read from data is what was in memory.
#include <gtest/gtest.h>

#include <vector>

#include "gpu.h"

namespace {

ingot_status run(const Session& session) {
  static float x[12], rows[12];
  const int64_t dims[] = {3, 4};
  const ingot_tensor in{x, INGOT_FLOAT32, 2, dims, nullptr}, out{rows, INGOT_FLOAT32, 2, dims, nullptr};
  return ingot_session_run_with(session.get(), &in, 1, &out, 1);
}

class Regions : public WithPlan {
 protected:
  Regions() : WithPlan(INGOT_TEST_SELECTED) {}
};

TEST_F(Regions, EachStraightOneIsRecorded) {
  start();
  const long long before = get("replays");
  good(run(session));
  EXPECT_EQ(get("replays"), before);
  good(run(session));
  good(run(session));
  EXPECT_GE(get("replays"), before + 4) << "two regions, from the second time on";
  int32_t rank = 0;
  const int64_t* dims = nullptr;
  good(ingot_session_output(session.get(), 0, &rank, &dims));
  EXPECT_EQ(rank, 2);
  EXPECT_EQ(dims[0], 0) << "memory begins as zeros there";
  EXPECT_EQ(dims[1], 4);
}

TEST_F(Regions, EveryFailedCallAndAllocation) {
  for (const char* setting : {"fail_allocation", "fail_call"}) {
    const ingot_status wanted = setting == std::string("fail_call") ? INGOT_DEVICE : INGOT_OUT_OF_MEMORY;
    fail_each(setting, [&] {
      session.reset();
      weights.reset();
      attempt("weights", wanted, [&] { return make(plan, weights); });
      attempt("session", wanted, [&] { return make(plan, weights, session); });
      for (int i = 0; i < 3; ++i) attempt("run", wanted, [&] { return run(session); });
      session.reset();
      weights.reset();
    });
  }
}

}  // namespace
