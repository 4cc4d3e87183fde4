// Weights that are streamed to a pretended GPU: the most memory they take, the order and recording of their copies, and every failure.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gpu.h"

namespace {

constexpr int64_t rows = 5;

// Device memory for the host tensors of a run, which a limit does not count.
constexpr long long of_tensors = rows * (8 + 2 + 4 + 4) * 4 + 4 + 5 * 64;

ingot_status run(const Session& session) { return run_model(session, rows); }

ingot_memory memory(const Weights& weights) {
  ingot_memory m{};
  good(ingot_weights_memory(weights.get(), &m));
  return m;
}
ingot_memory memory(const Session& session) {
  ingot_memory m{};
  good(ingot_session_memory(session.get(), &m));
  return m;
}

class Streamed : public WithPlan {
 protected:
  Streamed() : WithPlan(INGOT_TEST_MODEL) {}
  void SetUp() override {
    WithPlan::SetUp();
    if (plan == nullptr) return;
    start(INT64_MAX);
    good(run(session));
    all = memory(weights).resident;
    least = static_cast<int64_t>(memory(weights).least);
    arena = static_cast<int64_t>(memory(session).arena);
    session.reset();
    weights.reset();
  }
  uint64_t all = 0;
  int64_t least = 0, arena = 0;
};

TEST_F(Streamed, TheDeviceHoldsNoMoreThanTheLimit) {
  uint64_t before = UINT64_MAX;
  for (int64_t limit = least; limit < least + static_cast<int64_t>(all); limit += 128) {
    SCOPED_TRACE(limit);
    session.reset();
    weights.reset();
    const long long used = get("live_bytes");
    set("peak_bytes", used);
    good(make(plan, weights, limit));
    EXPECT_LE(get("peak_bytes") - used, limit);
    good(make(plan, weights, session));
    for (int i = 0; i < 3; ++i) good(run(session));
    EXPECT_LE(get("peak_bytes") - used, limit + of_tensors);
    const ingot_memory m = memory(session);
    EXPECT_EQ(m.resident + m.streamed, all);
    EXPECT_LE(m.resident + m.ring + m.arena, static_cast<uint64_t>(limit));
    EXPECT_LE(m.streamed, before);  // more room, fewer copies
    before = m.streamed;
    EXPECT_EQ(m.limit, static_cast<uint64_t>(limit));
  }
  EXPECT_EQ(before, 0u);
}

TEST_F(Streamed, TheLeastLimitWorksAndOneByteLessDoesNot) {
  EXPECT_EQ(told(make(plan, weights, 1)).status, INGOT_OUT_OF_MEMORY);
  const std::string remedy = ingot_last_error()->remedy;
  ASSERT_TRUE(remedy.starts_with("set memory_bytes to ")) << remedy;
  const int64_t told_least = std::atoll(remedy.c_str() + sizeof "set memory_bytes to " - 1);
  EXPECT_EQ(make(plan, weights, told_least - 1), INGOT_OUT_OF_MEMORY);
  good(make(plan, weights, told_least));
  EXPECT_GT(memory(weights).streamed, 0u);
  EXPECT_EQ(memory(weights).least, static_cast<uint64_t>(told_least));
  EXPECT_EQ(told(ingot_weights_set_memory(weights.get(), told_least - 1)).status, INGOT_OUT_OF_MEMORY);
  EXPECT_EQ(memory(weights).limit, static_cast<uint64_t>(told_least));
}

// The arena of a run may be larger than at the usual sizes.
TEST_F(Streamed, ALargerRunStreamsMore) {
  start(least + static_cast<int64_t>(all));
  good(run(session));
  const ingot_memory m = memory(session);
  EXPECT_GE(memory(weights).arena, m.arena);
  EXPECT_LE(m.resident + m.ring + memory(weights).arena, m.limit);
}

TEST_F(Streamed, RunsAreRecordedWithTheirCopies) {
  start(least);
  const long long replays = get("replays"), copies = get("pinned_copies");
  good(run(session));
  const long long of_a_run = get("pinned_copies") - copies;
  EXPECT_GT(of_a_run, 1);
  good(run(session));  // recorded
  EXPECT_EQ(get("pinned_copies"), copies + 2 * of_a_run);
  for (int i = 0; i < 3; ++i) good(run(session));
  EXPECT_EQ(get("pinned_copies"), copies + 2 * of_a_run);
  EXPECT_EQ(get("replays"), replays + 4);
  EXPECT_EQ(get("mistakes"), 0) << events();
}

TEST_F(Streamed, NothingIsCopiedWithoutNeed) {
  start(INT64_MAX);
  const long long copies = get("pinned_copies");
  good(run(session));
  EXPECT_EQ(get("pinned_copies"), copies);
  EXPECT_EQ(memory(session).ring, 0u);
}

TEST_F(Streamed, TheLimitChangesBetweenRuns) {
  Session other;
  start(INT64_MAX);
  good(make(plan, weights, other));
  const auto small = least;
  for (const int64_t limit : {small, INT64_MAX, small, int64_t{0}, small}) {
    SCOPED_TRACE(limit);
    good(ingot_weights_set_memory(weights.get(), limit));
    for (int again = 0; again < 3; ++again) good(run(session));  // recorded, also if memory has an address of an earlier placement
    good(run(other));
    const ingot_memory m = memory(weights);
    EXPECT_EQ(m.streamed > 0, limit == small);
    EXPECT_EQ(m.limit, static_cast<uint64_t>(limit));
    EXPECT_EQ(m.resident + m.streamed, all);
  }
  // Weights that went to the host have left the device.
  const ingot_memory m = memory(weights);
  EXPECT_LE(get("live_bytes"), static_cast<long long>(m.resident) + 2 * static_cast<long long>(m.ring + static_cast<uint64_t>(arena)) + 2 * of_tensors + 128);
}

TEST_F(Streamed, OneWeightThatChangesIsCopiedAlone) {
  start(least);
  good(run(session));
  const float bias[8] = {};
  const long long used = get("live_bytes"), host = get("host_memory");
  const ingot_memory m = memory(weights);
  for (int again = 0; again < 3; ++again) {
    good(ingot_weights_set(weights.get(), "a.bias", bias, sizeof bias, nullptr, 1));
    good(ingot_weights_commit(weights.get()));
    EXPECT_LE(get("host_memory"), host + 1);
    good(run(session));
    EXPECT_EQ(get("live_bytes"), used);
    EXPECT_EQ(get("host_memory"), host);
    EXPECT_EQ(memory(weights).streamed, m.streamed);
  }
}

TEST_F(Streamed, AForkSharesWhatIsStreamed) {
  Weights fork;
  start(least);
  good(run(session));
  const long long used = get("live_bytes"), host = get("host_memory");
  ingot_weights* made = nullptr;
  good(ingot_weights_fork(weights.get(), &made));
  fork.reset(made);
  const float bias[8] = {};
  good(ingot_weights_set(fork.get(), "a.bias", bias, sizeof bias, nullptr, 1));
  good(ingot_weights_commit(fork.get()));
  for (int i = 0; i < 4; ++i) {
    good(ingot_session_set_weights(session.get(), i % 2 == 0 ? fork.get() : weights.get()));
    good(run(session));
  }
  EXPECT_LE(get("live_bytes"), used + 512);
  EXPECT_LE(get("host_memory"), host + 1);
}

TEST_F(Streamed, NineTenthsOfTheFreeMemoryAreTheAutomaticLimit) {
  const uint64_t free = 2 * (all + static_cast<uint64_t>(arena));
  set("memory", get("live_bytes") + static_cast<long long>(free));
  good(make(plan, weights, -1));
  EXPECT_EQ(memory(weights).limit, free / 10 * 9);
  set("memory", 8LL << 30);
  good(ingot_weights_set_memory(weights.get(), -1));
  EXPECT_EQ(memory(weights).streamed, 0u);
}

TEST_F(Streamed, OnTheCpuThereIsNothingToLimit) {
  ingot_model* model = nullptr;
  good(ingot_model_open(INGOT_TEST_MODEL, &model));
  ingot_plan* made = nullptr;
  good(ingot_compile(model, nullptr, nullptr, nullptr, &made));
  ingot_model_release(model);
  const Plan host(made);
  ingot_weights* weights = nullptr;
  const Options limited = options_of({{"memory_bytes", "1000"}}), automatic = options_of({{"memory_bytes", "-1"}});
  const Told t = told(ingot_weights_create(host.get(), limited.get(), &weights));
  EXPECT_EQ(t.status, INGOT_INVALID_OPTION);
  EXPECT_EQ(t.message, "option memory_bytes is 1000, but it limits the memory of a GPU, and these weights are on the CPU");
  good(ingot_weights_create(host.get(), automatic.get(), &weights));
  const Weights owner(weights);
  EXPECT_EQ(memory(owner).limit, 0u);
}

class Callers : public OfCaller {
 public:
  Callers() : OfCaller(4096) {}
  // Returns before its work is done, since nothing of it is on the host.
  ingot_status run(const Session& session, size_t from) const {
    const int64_t x[] = {rows, 8}, y[] = {rows, 2}, a[] = {rows, 4}, b[] = {4, rows};
    const ingot_tensor inputs[] = {{at(from), INGOT_FLOAT32, 2, x, nullptr}, {at(from + 256), INGOT_FLOAT32, 2, y, nullptr}};
    const ingot_tensor outputs[] = {
        {at(from + 512), INGOT_FLOAT32, 2, a, nullptr}, {at(from + 768), INGOT_FLOAT32, 2, b, nullptr}, {at(from + 1024), INGOT_FLOAT32, 0, x, nullptr}};
    return ingot_session_run_with(session.get(), inputs, 2, outputs, 3);
  }
};

// What is streamed from goes with the last session that reads it, so runs in every stream must have ended by then.
TEST_F(Streamed, CopiesOfRunsInTwoStreamsEndBeforeTheirMemoryGoes) {
  const Callers callers;
  for (const int runs : {1, 3}) {  // three: recorded
    SCOPED_TRACE(runs);
    Weights weights;
    Session session;
    good(make(plan, weights, static_cast<int64_t>(least)));
    good(make(plan, weights, session));
    for (void* stream : {static_cast<void*>(nullptr), callers.stream, static_cast<void*>(nullptr)}) {
      good(ingot_session_set_stream(session.get(), stream));
      for (int i = 0; i < runs; ++i) good(callers.run(session, stream == nullptr ? 0 : 2048));
    }
    weights.reset();
    session.reset();
    EXPECT_EQ(get("mistakes"), 0) << events();
  }
}

void live_once(const Plan& plan, int64_t limit, ingot_status wanted) {
  Weights weights;
  Session session;
  const float bias[8] = {};
  attempt("weights", wanted, [&] { return make(plan, weights, limit); });
  attempt("session", wanted, [&] { return make(plan, weights, session); });
  for (int i = 0; i < 3; ++i) attempt("run", wanted, [&] { return run(session); });
  attempt("no limit", wanted, [&] { return ingot_weights_set_memory(weights.get(), 0); });
  attempt("run without a limit", wanted, [&] { return run(session); });
  attempt("limit", wanted, [&] { return ingot_weights_set_memory(weights.get(), limit); });
  attempt("commit", wanted, [&] {
    ingot_status status = ingot_weights_set(weights.get(), "keep", bias, 6, nullptr, 1);
    return status == INGOT_OK ? ingot_weights_commit(weights.get()) : status;
  });
  for (int i = 0; i < 3; ++i) attempt("run with other weights", wanted, [&] { return run(session); });
}

TEST_F(Streamed, EachAllocationFailsOnce) {
  fail_each("fail_allocation", [&] { live_once(plan, least, INGOT_OUT_OF_MEMORY); });
}
TEST_F(Streamed, EachCallFailsOnce) {
  fail_each("fail_call", [&] { live_once(plan, least, INGOT_DEVICE); });
}

// A plan with a state, and with a weight that prepare computes from others.
class StreamedDecoder : public WithPlan {
 protected:
  StreamedDecoder() : WithPlan(INGOT_TEST_DECODER) {}
};

TEST_F(StreamedDecoder, EveryFailureWithAState) {
  start();
  const ingot_memory told = memory(weights);
  session.reset();
  weights.reset();
  for (const char* setting : {"fail_allocation", "fail_call"}) {
    fail_each(setting, [&] {
      const ingot_status wanted = setting == std::string("fail_call") ? INGOT_DEVICE : INGOT_OUT_OF_MEMORY;
      const long long used = get("live_bytes"), copies = get("pinned_copies");
      set("peak_bytes", used);
      attempt("weights", wanted, [&] { return make(plan, weights, static_cast<int64_t>(told.least)); });
      EXPECT_LE(get("peak_bytes") - used, static_cast<long long>(told.least));
      EXPECT_EQ(memory(weights).resident + memory(weights).streamed, told.resident);
      EXPECT_GT(memory(weights).streamed, 0u);
      attempt("session", wanted, [&] { return make(plan, weights, session); });
      for (int i = 0; i < 4; ++i) attempt("run", wanted, [&] { return run_decoder(session); });
      EXPECT_GT(get("pinned_copies"), copies);
      session.reset();
      weights.reset();
    });
  }
}

}  // namespace
