// States on a pretended GPU: their memory, the order of work in several streams, and every failure. Kernels compute nothing there; copies copy.
#include <gtest/gtest.h>

#include <vector>

#include "gpu.h"

namespace {

using State = std::unique_ptr<ingot_state, Releaser<ingot_state, ingot_state_release>>;

ingot_status make(const Plan& plan, const Weights& weights, State& out) {
  ingot_state* made = nullptr;
  ingot_status status = ingot_state_create(plan.get(), weights.get(), &made);
  if (status == INGOT_OK) out.reset(made);
  return status;
}

ingot_status fork(const State& state, State& out) {
  ingot_state* made = nullptr;
  ingot_status status = ingot_state_fork(state.get(), &made);
  if (status == INGOT_OK) out.reset(made);
  return status;
}

int64_t position(const State& state) {
  int64_t value = -1;
  good(ingot_state_read(state.get(), "position", &value, sizeof value));
  return value;
}

class States : public WithPlan {
 protected:
  States() : WithPlan(INGOT_TEST_DECODER) {}
};

TEST_F(States, LieOnTheGpuAndAreCopiedThere) {
  good(make(plan, weights));
  const long long before = get("allocations");
  State a, b;
  good(make(plan, weights, a));
  EXPECT_EQ(get("allocations"), before + 3);
  const int64_t seven = 7;
  good(ingot_state_write(a.get(), "position", &seven, sizeof seven));
  good(fork(a, b));
  good(ingot_state_reset(a.get()));
  EXPECT_EQ(position(a), 0);
  EXPECT_EQ(position(b), 7);
  good(ingot_state_copy(a.get(), b.get()));
  EXPECT_EQ(position(a), 7);
  ingot_tensor t;
  good(ingot_state_tensor(a.get(), "keys", &t));
  EXPECT_EQ(t.rank, 2);
  EXPECT_EQ(t.dims[0], 16);
  const int64_t turned[] = {1, 16};
  t.strides = turned;
  EXPECT_EQ(ingot_state_bind(b.get(), "keys", &t), INGOT_OK);
  Told refused = told(ingot_state_reset(b.get()));
  EXPECT_EQ(refused.message, "state \"keys\" is on the GPU with strides");
  EXPECT_EQ(position(b), 7);
}

TEST_F(States, ASessionComesAfterTheOneBefore) {
  Session first, second;
  State state;
  good(make(plan, weights));
  good(make(plan, weights, first));
  good(make(plan, weights, second));
  const long long none = get("waits");
  for (int i = 0; i < 4; ++i) good(run_decoder(first));
  EXPECT_EQ(get("waits"), none);  // no other session uses its own state
  good(make(plan, weights, state));
  good(ingot_session_set_state(first.get(), state.get()));
  good(ingot_session_set_state(second.get(), state.get()));
  const long long before = get("waits"), replays = get("replays");
  for (int i = 0; i < 4; ++i) {
    good(run_decoder(first));
    good(run_decoder(second));
  }
  EXPECT_EQ(get("waits"), before + 8);
  EXPECT_GE(get("replays"), replays + 4);  // each session has its recordings
}

TEST_F(States, TwoStatesOfOneSessionKeepTheirRecordings) {
  State a, b;
  start();
  good(make(plan, weights, a));
  good(make(plan, weights, b));
  for (int i = 0; i < 6; ++i) {
    const long long replays = get("replays");
    good(ingot_session_set_state(session.get(), (i % 2 == 0 ? a : b).get()));
    good(run_decoder(session));
    EXPECT_EQ(get("replays"), replays + (i < 2 ? 0 : 1)) << i;
  }
}

void change(const Weights& weights, const char* name, size_t bytes) {
  const std::vector<std::byte> values(bytes);
  good(ingot_weights_set(weights.get(), name, values.data(), bytes, nullptr, 1));
  good(ingot_weights_commit(weights.get()));
}

Weights fork(const Weights& weights) {
  ingot_weights* made = nullptr;
  good(ingot_weights_fork(weights.get(), &made));
  return Weights(made);
}

// The number of times that sizes were resolved, as the end of the profile's text.
std::string resolutions(const Session& session) {
  char* text = nullptr;
  good(ingot_session_profile(session.get(), 0, &text));
  const std::string all = text;
  ingot_string_release(text);
  return all.substr(all.rfind(':') + 2);
}

TEST_F(States, AChangeOfWeightsLeavesRecordingsWhoseAddressesStay) {
  start();
  for (int i = 0; i < 3; ++i) good(run_decoder(session));
  long long launches = get("launches"), replays = get("replays");
  change(weights, "position", 8);  // a first value of a state: no step reads it
  good(run_decoder(session));
  EXPECT_EQ(get("launches"), launches);
  EXPECT_EQ(get("replays"), replays + 1);
  // With another address the steps run once unrecorded, then they are recorded again.
  ingot_binding binding;
  good(ingot_plan_weight(plan.get(), 0, &binding));
  ASSERT_EQ(binding.written, 0);
  size_t bytes = 4;
  for (int d = 0; d < binding.rank; ++d) bytes *= static_cast<size_t>(binding.dims[d]);
  change(weights, binding.name, bytes);
  replays = get("replays");
  good(run_decoder(session));
  EXPECT_GT(get("launches"), launches);
  EXPECT_EQ(get("replays"), replays);
  launches = get("launches");
  for (int i = 0; i < 3; ++i) good(run_decoder(session));
  EXPECT_EQ(get("launches"), launches);
  EXPECT_EQ(get("replays"), replays + 3);
  EXPECT_EQ(resolutions(session), "1}");
}

TEST_F(States, RecordingsForEachSetOfWeights) {
  good(make(plan, weights));
  ingot_binding binding;
  good(ingot_plan_weight(plan.get(), 0, &binding));
  size_t bytes = 4;
  for (int d = 0; d < binding.rank; ++d) bytes *= static_cast<size_t>(binding.dims[d]);
  const long long allocations = get("allocations"), memory = get("live_bytes");
  Weights other = fork(weights);
  EXPECT_EQ(get("allocations"), allocations);
  change(other, binding.name, bytes);
  EXPECT_LE(get("live_bytes"), memory + 2 * static_cast<long long>(bytes) + 1024);
  good(make(plan, weights, session));
  for (int i = 0; i < 8; ++i) {
    const long long replays = get("replays");
    good(ingot_session_set_weights(session.get(), (i % 2 == 0 ? weights : other).get()));
    good(run_decoder(session));
    EXPECT_EQ(get("replays"), replays + (i < 2 ? 0 : 1)) << i;
  }
  EXPECT_EQ(resolutions(session), "1}");
}

void live_once(const Plan& plan, ingot_status wanted) {
  Weights weights;
  Session session;
  State a, b;
  int64_t value = 5;
  attempt("weights", wanted, [&] { return make(plan, weights); });
  attempt("session", wanted, [&] { return make(plan, weights, session); });
  attempt("state", wanted, [&] { return make(plan, weights, a); });
  attempt("bind", wanted, [&] { return ingot_session_set_state(session.get(), a.get()); });
  for (int i = 0; i < 3; ++i) attempt("run", wanted, [&] { return run_decoder(session); });
  attempt("write", wanted, [&] { return ingot_state_write(a.get(), "position", &value, sizeof value); });
  attempt("fork", wanted, [&] { return fork(a, b); });
  attempt("reset", wanted, [&] { return ingot_state_reset(a.get()); });
  attempt("copy", wanted, [&] { return ingot_state_copy(a.get(), b.get()); });
  attempt("read", wanted, [&] { return ingot_state_read(a.get(), "position", &value, sizeof value); });
  EXPECT_EQ(value, 5);
  const std::string path = testing::TempDir() + "ingot_pretended_state.safetensors";
  attempt("save", wanted, [&] { return ingot_state_save(a.get(), path.c_str()); });
  attempt("load", wanted, [&] { return ingot_state_load(b.get(), path.c_str()); });
  std::remove(path.c_str());
  ingot_weights* made = nullptr;
  attempt("fork of the weights", wanted, [&] { return ingot_weights_fork(weights.get(), &made); });
  const Weights version(made);
  attempt("commit", wanted, [&] {
    ingot_status status = ingot_weights_set(made, "position", &value, sizeof value, nullptr, 1);
    return status == INGOT_OK ? ingot_weights_commit(made) : status;
  });
  attempt("other weights", wanted, [&] { return ingot_session_set_weights(session.get(), made); });
  attempt("run with other weights", wanted, [&] { return run_decoder(session); });
  attempt("own state", wanted, [&] { return ingot_session_set_state(session.get(), nullptr); });
  attempt("run with its own", wanted, [&] { return run_decoder(session); });
}

TEST_F(States, EachAllocationFailsOnce) {
  fail_each("fail_allocation", [&] { live_once(plan, INGOT_OUT_OF_MEMORY); });
}
TEST_F(States, EachCallFailsOnce) {
  fail_each("fail_call", [&] { live_once(plan, INGOT_DEVICE); });
}

}  // namespace
