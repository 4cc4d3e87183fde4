// A function with regions on a pretended GPU: kernels compute nothing there, so the size that is read is what was in memory. Every failure is tried.
#include <gtest/gtest.h>

#include <vector>

#include "gpu.h"

namespace {

Plan selected() { return compiled_for_gpu(INGOT_TEST_SELECTED); }

ingot_status run(const Session& session) {
  static float x[12], rows[12];
  const int64_t dims[] = {3, 4};
  const ingot_tensor in{x, INGOT_FLOAT32, 2, dims, nullptr}, out{rows, INGOT_FLOAT32, 2, dims, nullptr};
  return ingot_session_run_with(session.get(), &in, 1, &out, 1);
}

class Regions : public OnPretendGpu {
 protected:
  void SetUp() override {
    OnPretendGpu::SetUp();
    if (selected() == nullptr) GTEST_SKIP() << ingot_last_error()->message;
  }
};

TEST_F(Regions, EachStraightOneIsRecorded) {
  Plan plan = selected();
  Weights weights;
  Session session;
  good(make(plan, weights));
  good(make(plan, weights, session));
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
  Plan plan = selected();
  for (const char* setting : {"fail_allocation", "fail_call"}) {
    fail_each(setting, [&] {
      Weights weights;
      Session session;
      attempt("weights", setting == std::string("fail_call") ? INGOT_DEVICE : INGOT_OUT_OF_MEMORY, [&] { return make(plan, weights); });
      if (weights == nullptr) return;
      attempt("session", setting == std::string("fail_call") ? INGOT_DEVICE : INGOT_OUT_OF_MEMORY, [&] { return make(plan, weights, session); });
      if (session == nullptr) return;
      for (int i = 0; i < 3; ++i) attempt("run", setting == std::string("fail_call") ? INGOT_DEVICE : INGOT_OUT_OF_MEMORY, [&] { return run(session); });
    });
  }
}

}  // namespace
