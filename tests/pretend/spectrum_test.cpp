// Transforms by the pretend cuFFT, and every failure.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gpu.h"

namespace {

constexpr int64_t length = 256;

ingot_status run(const Session& session, int64_t rows = 3) {
  static std::vector<float> x(64 * length), y(64 * length);
  const int64_t dims[] = {rows, length};
  const ingot_tensor in{x.data(), INGOT_FLOAT32, 2, dims, nullptr}, out{y.data(), INGOT_FLOAT32, 2, dims, nullptr};
  return ingot_session_run_with(session.get(), &in, 1, &out, 1);
}

size_t transforms() {
  const std::string all = events();
  size_t found = 0;
  for (size_t at = all.find("transform of "); at != std::string::npos; at = all.find("transform of ", at + 1)) ++found;
  return found;
}

class Spectrum : public WithPlan {
 protected:
  Spectrum() : WithPlan(INGOT_TEST_SPECTRUM) {}
};

TEST_F(Spectrum, TransformsAreRecorded) {
  start();
  const long long before = get("replays");
  good(run(session));
  EXPECT_EQ(transforms(), 2u);
  EXPECT_NE(std::string(events()).find("transform of 768 numbers"), std::string::npos) << events();
  good(run(session));
  EXPECT_EQ(transforms(), 4u);  // that of the recording
  good(run(session));
  EXPECT_EQ(transforms(), 4u);
  EXPECT_EQ(get("replays"), before + 2);
}

// Each set of sizes has plans of its own, which go with it.
TEST_F(Spectrum, PlansGoWithTheirSizes) {
  start();
  constexpr int64_t kept = 32;  // sets of sizes of a session
  for (int64_t rows = 1; rows <= 64; ++rows) {
    good(run(session, rows));
    EXPECT_EQ(live_transforms(), 2 * std::min(rows, kept));
  }
}

class Callers : public OfCaller {
 public:
  Callers() : OfCaller(2 * bytes) {}
  ingot_status run(const Session& session, int64_t rows) const {
    const int64_t dims[] = {rows, length};
    const ingot_tensor in{at(0), INGOT_FLOAT32, 2, dims, nullptr}, out{at(bytes), INGOT_FLOAT32, 2, dims, nullptr};
    return ingot_session_run_with(session.get(), &in, 1, &out, 1);
  }
  std::unique_ptr<CallersGraph> recorded(const Session& session, int64_t rows) const {
    return record([&] { return run(session, rows); });
  }

 private:
  static constexpr size_t bytes = 64 * static_cast<size_t>(length) * sizeof(float);
};

// The tables of plans that a caller recorded stay as long as the recording, whatever sizes come after.
TEST_F(Spectrum, ACallersRecordingKeepsItsPlans) {
  const Callers callers;
  start();
  good(ingot_session_set_stream(session.get(), callers.stream));
  good(callers.run(session, 3));
  std::unique_ptr<CallersGraph> graph = callers.recorded(session, 3);
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(transforms(), 4u);
  for (int64_t rows = 4; rows <= 64; ++rows) good(callers.run(session, rows));
  EXPECT_EQ(live_transforms(), 2 * (32 + 1));
  session.reset();
  weights.reset();
  EXPECT_EQ(live_transforms(), 2);
  EXPECT_EQ(graph->replay(), 0);
  graph.reset();
  start();  // what the recording held goes with the next stream
  EXPECT_EQ(live_transforms(), 0);
  session.reset();
  weights.reset();
}

TEST_F(Spectrum, SizesFirstSeenInACallersRecordingAreByOwnKernels) {
  const Callers callers;
  start();
  good(ingot_session_set_stream(session.get(), callers.stream));
  std::unique_ptr<CallersGraph> graph = callers.recorded(session, 3);
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(transforms(), 0u);
  EXPECT_NE(std::string(events()).find("kernel fourier_to_real_f32_block"), std::string::npos) << events();
  EXPECT_EQ(live_transforms(), 0);
  graph.reset();
  session.reset();
  weights.reset();
}

TEST_F(Spectrum, EveryFailedCallAndAllocation) {
  for (const char* setting : {"fail_allocation", "fail_call"}) {
    const ingot_status wanted = setting == std::string("fail_call") ? INGOT_DEVICE : INGOT_OUT_OF_MEMORY;
    fail_each(
        setting,
        [&] {
          attempt("weights", wanted, [&] { return make(plan, weights); });
          attempt("session", wanted, [&] { return make(plan, weights, session); });
          for (int i = 0; i < 3; ++i) attempt("run", wanted, [&] { return run(session); });
          session.reset();
          weights.reset();
          EXPECT_EQ(live_transforms(), 0);
        },
        5);
  }
}

}  // namespace
