// Plans on a GPU that refuses: every allocation and every call of the driver fails once, memory is short, or the plan was compiled for another GPU. On the
// pretend driver, through ingot.h. Kernels compute nothing, so the tests look at the calls of the driver only.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "../robustness/seal.h"
#include "gpu.h"
#include "ingot/ingot.h"

namespace {

// A model of capture's tests, with GEMMs and other steps. Null without NVRTC.
Plan compiled(const char* target, const char* seconds = "0", const std::string& timing_cache = "") {
  ingot_model* model = nullptr;
  good(ingot_model_open(INGOT_TEST_MODEL, &model));
  Options options = options_of({{"target", target}, {"deterministic", "run"}, {"build_seconds", seconds}, {"timing_cache", timing_cache.c_str()}});
  ingot_plan* plan = nullptr;
  ingot_status status = ingot_compile(model, options.get(), nullptr, nullptr, &plan);
  if (status != INGOT_DEVICE) good(status);
  ingot_model_release(model);
  return Plan(plan);
}

class Gpu : public WithPlan {
 protected:
  Gpu() : WithPlan(INGOT_TEST_MODEL) {}
};

TEST_F(Gpu, APlanRuns) {
  long long products = of_products("started"), replays = get("replays");
  start();
  for (int i = 0; i < 4; ++i) good(run_model(session, 5));
  EXPECT_GT(of_products("started"), products);
  EXPECT_GT(get("replays"), replays);
  EXPECT_NE(std::string(events()).find("module cubin sm_90\n"), std::string::npos) << events();
}

// INGOT_TEST_MODEL on the caller's device memory.
class Callers : public OfCaller {
 public:
  Callers() : OfCaller(5 * each) {}
  ingot_status run(const Session& session) const {
    const int64_t rows = 5, x[] = {rows, 8}, y[] = {rows, 2}, a[] = {rows, 4}, b[] = {4, rows};
    const ingot_tensor inputs[] = {{at(0), INGOT_FLOAT32, 2, x, nullptr}, {at(each), INGOT_FLOAT32, 2, y, nullptr}};
    const ingot_tensor outputs[] = {{at(2 * each), INGOT_FLOAT32, 2, a, nullptr}, {at(3 * each), INGOT_FLOAT32, 2, b, nullptr}, {at(4 * each), INGOT_FLOAT32, 0, x, nullptr}};
    return ingot_session_run_with(session.get(), inputs, 2, outputs, 3);
  }

 private:
  static constexpr size_t each = 1024;
};

// Its code, its prepared weights and its scratch memory stay until the recording is gone, and no longer.
TEST_F(Gpu, ACallersRecordingOutlivesItsSession) {
  for (const bool warm : {false, true}) {
    const long long before = taken();
    {
      const Callers callers;
      start();
      good(ingot_session_set_stream(session.get(), callers.stream));
      if (warm) good(callers.run(session));
      std::unique_ptr<CallersGraph> graph = callers.record([&] { return callers.run(session); });
      ASSERT_NE(graph, nullptr);
      const long long recorded = get("live_bytes");
      float bias[8] = {};
      good(ingot_weights_set(weights.get(), "a.bias", bias, sizeof bias, nullptr, 1));
      good(ingot_weights_commit(weights.get()));
      good(callers.run(session));  // in memory of its own
      EXPECT_GT(get("live_bytes"), recorded);
      session.reset();
      weights.reset();
      EXPECT_EQ(get("live_bytes"), recorded);
      EXPECT_EQ(graph->replay(), 0) << events();
      EXPECT_EQ(get("mistakes"), 0) << events();
    }
    start();  // what the recording held goes with the next stream
    session.reset();
    weights.reset();
    EXPECT_EQ(taken(), before);
  }
}

TEST_F(Gpu, ARecordingThatCannotHoldWhatItRunsFails) {
  const Callers callers;
  fail_each(
      "fail_call",
      [&] {
        attempt("weights", INGOT_DEVICE, [&] { return make(plan, weights); });
        attempt("session", INGOT_DEVICE, [&] { return make(plan, weights, session); });
        good(ingot_session_set_stream(session.get(), callers.stream));
        attempt("recording", INGOT_DEVICE, [&] {
          const std::unique_ptr<CallersGraph> graph = callers.record([&] { return callers.run(session); });
          return graph != nullptr ? INGOT_OK : INGOT_DEVICE;
        });
        session.reset();
        weights.reset();
        attempt("weights again", INGOT_DEVICE, [&] { return make(plan, weights); });  // what recordings held goes with the next stream
        weights.reset();
      },
      7);
}

// Two sums of a matrix [6, 4] and a product of rank 2.
ingot_status add_products(const Weights& weights) {
  static float up[12], down[8], base[24], sums[48];
  const int64_t sizes[] = {6, 4, 2};
  void* const memory[] = {up, down, base, sums, up, down, base, sums + 24};
  return ingot_weights_add_products(weights.get(), INGOT_FLOAT32, sizes, memory, 2, nullptr);
}

TEST_F(Gpu, ProductsAreAddedToWeights) {
  start();
  const long long before = of_products("started");
  good(add_products(weights));
  EXPECT_EQ(of_products("started"), before + 2);
  EXPECT_NE(std::string(events()).find("product of 44 numbers by algorithm 0"), std::string::npos) << events();
  const int64_t wrong[] = {6, -4, 2}, empty[] = {0, 4, 2};
  void* const none[] = {nullptr, nullptr, nullptr, nullptr};
  EXPECT_EQ(ingot_weights_add_products(weights.get(), INGOT_FLOAT32, wrong, none, 1, nullptr), INGOT_INVALID_INPUT);
  EXPECT_EQ(ingot_weights_add_products(weights.get(), INGOT_FLOAT32, empty, none, 1, nullptr), INGOT_OK);
  EXPECT_EQ(ingot_weights_add_products(weights.get(), INGOT_INT32, empty, none, 1, nullptr), INGOT_INVALID_INPUT);
  EXPECT_EQ(of_products("started"), before + 2);
}

// Weights, two sessions, and runs of two sizes, some of them recorded. Each call is repeated if it fails.
void live_once(const Plan& plan, ingot_status wanted) {
  Weights weights;
  Session session, other;
  float bias[8] = {};
  attempt("weights", wanted, [&] { return make(plan, weights); });
  attempt("session", wanted, [&] { return make(plan, weights, session); });
  for (int i = 0; i < 4; ++i) attempt("run", wanted, [&] { return run_model(session, 5); });
  attempt("other session", wanted, [&] { return make(plan, weights, other); });
  attempt("other run", wanted, [&] { return run_model(other, 32); });
  attempt("commit", wanted, [&] {
    ingot_status status = ingot_weights_set(weights.get(), "a.bias", bias, sizeof bias, nullptr, 1);
    return status == INGOT_OK ? ingot_weights_commit(weights.get()) : status;
  });
  attempt("run with other weights", wanted, [&] { return run_model(session, 32); });
  attempt("products", wanted, [&] { return add_products(weights); });
}

TEST_F(Gpu, EachAllocationFailsOnce) {
  fail_each("fail_allocation", [&] { live_once(plan, INGOT_OUT_OF_MEMORY); });
}
TEST_F(Gpu, EachCallFailsOnce) {
  fail_each("fail_call", [&] { live_once(plan, INGOT_DEVICE); });
}

TEST_F(Gpu, TheDriverHasShutDown) {
  start();
  for (int i = 0; i < 3; ++i) good(run_model(session, 5));
  set("shut_down", 1);
  session.reset();  // like static objects at the end of a process
  weights.reset();
  set("shut_down", 0);
}

TEST_F(Gpu, NoMemoryForAStream) {
  good(make(plan, weights));
  std::vector<Session> sessions;
  ingot_status status = INGOT_OK;
  long long before = 0, blocks = get("host_memory");
  // One of them needs a new block of memory.
  for (int i = 0; i < 1024 && status == INGOT_OK; ++i) {
    before = get("live");
    set("fail_allocation", 1);
    Session s;
    status = make(plan, weights, s);
    if (status == INGOT_OK) sessions.push_back(std::move(s));
  }
  Told t = told(status);
  EXPECT_EQ(t.status, INGOT_OUT_OF_MEMORY);
  EXPECT_EQ(t.message, "allocating memory that Pretend GPU can write failed: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory");
  EXPECT_EQ(get("live"), before);
  EXPECT_EQ(get("host_memory"), blocks);
  Session s;
  good(make(plan, weights, s));
  EXPECT_EQ(get("host_memory"), blocks + 1);
}

TEST_F(Gpu, NoMemoryForTheWeights) {
  Weights others;
  start();
  good(run_model(session, 5));
  long long used = get("live_bytes"), live = get("live");
  set("memory", used + 1000);
  Told t = told(make(plan, others));
  EXPECT_EQ(t.status, INGOT_OUT_OF_MEMORY);
  EXPECT_EQ(t.message, "the plan's weights: allocating " + std::to_string(get("refused")) + " bytes on Pretend GPU, where 1000 of " + std::to_string(used + 1000) +
                           " are free, failed: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory");
  EXPECT_EQ(t.remedy, "use smaller inputs, or free device memory that other programs or tensors hold");
  EXPECT_EQ(get("live"), live);
  good(run_model(session, 5));  // the other session still runs
  set("memory", 8LL << 30);
  good(make(plan, others));
}

TEST_F(Gpu, NoMemoryForTheArena) {
  Session other;
  start();
  good(make(plan, weights, other));
  good(run_model(session, 5));
  long long used = get("live_bytes");
  set("memory", used + 1000);
  Told t = told(run_model(other, 32));
  EXPECT_EQ(t.status, INGOT_OUT_OF_MEMORY);
  EXPECT_EQ(t.message, "the arena of a session: allocating " + std::to_string(get("refused")) + " bytes on Pretend GPU, where 1000 of " + std::to_string(used + 1000) +
                           " are free, failed: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory");
  EXPECT_EQ(get("live_bytes"), used);
  good(run_model(session, 5));
  EXPECT_EQ(told(run_model(session, 32)).status, INGOT_OUT_OF_MEMORY);
  good(run_model(session, 5));  // with the arena that it has
  set("memory", 8LL << 30);
  good(run_model(other, 32));
  good(run_model(session, 32));
}

// A commit takes only the memory of the weight that changes and of the tensors derived from it.
TEST_F(Gpu, OneWeightThatChangesIsCopiedAlone) {
  start();
  good(run_model(session, 5));
  const float bias[8] = {};
  for (int again = 0; again < 3; ++again) {
    const long long used = get("live_bytes");
    good(ingot_weights_set(weights.get(), "a.bias", bias, sizeof bias, nullptr, 1));
    good(ingot_weights_commit(weights.get()));
    EXPECT_LE(get("live_bytes"), used + 512);
    good(run_model(session, 5));  // the session drops the old weights
    EXPECT_LE(get("live_bytes"), used + 256);
  }
}

std::string loaded(const Plan& plan, int64_t rows = 5) {
  forget_events();
  Weights weights;
  Session session;
  good(make(plan, weights));
  good(make(plan, weights, session));
  good(run_model(session, rows));
  return events();
}

TEST_F(Gpu, APlanForAnotherGpuIsCompiledFromItsGraph) {
  const Plan wanted = compiled("cuda:sm_80"), cpu = compiled("cpu");
  set("sm", 80);
  std::string there = loaded(wanted);
  EXPECT_NE(there.find("module cubin sm_80\n"), std::string::npos) << there;
  EXPECT_EQ(loaded(plan), there);  // the same modules, kernels and launches
  EXPECT_EQ(loaded(cpu), there);
  // From a file too, whose weights are mapped.
  std::string path = testing::TempDir() + "another_gpu.ingot";
  good(ingot_plan_save(plan.get(), path.c_str()));
  ingot_plan* read = nullptr;
  good(ingot_plan_load(path.c_str(), &read));
  EXPECT_EQ(loaded(Plan(read)), there);
  std::remove(path.c_str());
}

TEST_F(Gpu, APlanForAnotherGpuTakesItsWeightsFromTheHost) {
  uint8_t* bytes = nullptr;
  size_t count = 0;
  good(ingot_plan_write(plan.get(), 0, &bytes, &count));
  const std::unique_ptr<uint8_t, void (*)(uint8_t*)> owner(bytes, ingot_bytes_release);
  ingot_plan* read = nullptr;
  good(ingot_plan_load_memory(bytes, count, &read));
  Plan stripped(read);
  set("sm", 80);
  good(make(stripped, weights));
  good(ingot_plan_weight_count(stripped.get(), &count));
  const std::vector<float> zeros(64);
  for (size_t i = 0; i < count; ++i) {
    ingot_binding b;
    good(ingot_plan_weight(stripped.get(), i, &b));
    size_t size = b.dtype == INGOT_BOOL ? 1 : 4;
    for (int32_t d = 0; d < b.rank; ++d) size *= static_cast<size_t>(b.dims[d]);
    ASSERT_LE(size, zeros.size() * 4);
    good(ingot_weights_set(weights.get(), b.name, zeros.data(), size, nullptr, 0));
  }
  good(ingot_weights_commit(weights.get()));
  good(make(stripped, weights, session));
  good(run_model(session, 5));
  EXPECT_NE(std::string(events()).find("module cubin sm_80\n"), std::string::npos) << events();
}

TEST_F(Gpu, ANewerGpuTakesThePtx) {
  set("sm", 120);
  std::string there = loaded(plan);
  EXPECT_NE(there.find("module ptx sm_90\n"), std::string::npos) << there;
  EXPECT_EQ(there.find("cubin"), std::string::npos) << there;
}

TEST_F(Gpu, CodeNewerThanTheDriver) {
  set("driver", 12040);
  Told t = told(make(plan, weights));
  EXPECT_EQ(t.status, INGOT_VERSION);
  EXPECT_TRUE(t.message.starts_with("loading ")) << t.message;
  EXPECT_TRUE(
      t.message.ends_with(" bytes of code on Pretend GPU (sm_90) failed: it was compiled by CUDA 13.0, and the driver is one for CUDA 12.4 (CUDA_ERROR_INVALID_IMAGE, 200)"))
      << t.message;
  EXPECT_EQ(t.remedy, "update NVIDIA's driver to one for CUDA 13.0 or later, or compile the plan again with NVRTC of CUDA 12.4 or earlier");
  set("sm", 120);  // only the PTX could run there
  t = told(make(plan, weights));
  EXPECT_EQ(t.status, INGOT_VERSION);
  EXPECT_TRUE(t.message.ends_with("(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222)")) << t.message;
}

TEST_F(Gpu, NoSuchGpu) {
  Options second = options_of({{"device", "cuda:1"}});
  ingot_weights* made = nullptr;
  Told t = told(ingot_weights_create(plan.get(), second.get(), &made));
  EXPECT_EQ(t.status, INGOT_INVALID_INPUT);
  EXPECT_EQ(t.message, "there is no GPU number 1: this process sees 1");
  EXPECT_EQ(t.remedy, "they are counted from 0; CUDA_VISIBLE_DEVICES may hide some");
  set("gpus", 0);
  t = told(ingot_weights_create(plan.get(), on_gpu(), &made));
  EXPECT_EQ(t.status, INGOT_DEVICE);
  EXPECT_EQ(t.message, "this process sees no GPU");
  EXPECT_EQ(t.remedy, "check nvidia-smi and CUDA_VISIBLE_DEVICES, or run on the CPU");
}

// ---- timing

std::string bytes_of(const Plan& plan) {
  uint8_t* bytes = nullptr;
  size_t count = 0;
  good(ingot_plan_write(plan.get(), 1, &bytes, &count));
  const std::unique_ptr<uint8_t, void (*)(uint8_t*)> owner(bytes, ingot_bytes_release);
  return {reinterpret_cast<const char*>(bytes), count};
}

// The algorithm of all GEMMs of a run at the usual sizes.
long long algorithm_of(const Plan& plan) {
  std::string there = loaded(plan, 3), wanted = " by algorithm " + std::to_string(of_products("algorithm")) + "\n";
  for (size_t at = there.find(" by algorithm "); at != std::string::npos; at = there.find(" by algorithm ", at + 1)) EXPECT_EQ(there.substr(at, wanted.size()), wanted) << there;
  return of_products("algorithm");
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Timed : public Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    set("algorithms", 20);
    set("fastest", 5);
    std::remove(cache.c_str());
  }
  void TearDown() override {
    std::remove(cache.c_str());
    Gpu::TearDown();
  }
  std::string cache = testing::TempDir() + "ingot_timing_cache";
};

TEST_F(Timed, ThePlanTakesTheFastest) {
  Plan usual = compiled("cuda:sm_90"), timed = compiled("cuda:sm_90", "20");
  EXPECT_EQ(algorithm_of(usual), 0);
  EXPECT_EQ(algorithm_of(timed), 5);
  EXPECT_EQ(bytes_of(usual), bytes_of(compiled("cuda:sm_90")));
  EXPECT_EQ(bytes_of(timed), bytes_of(compiled("cuda:sm_90", "20")));
  // Also from a file, and of a part of the plan.
  std::string bytes = bytes_of(timed);
  ingot_plan *read = nullptr, *part = nullptr;
  good(ingot_plan_load_memory(bytes.data(), bytes.size(), &read));
  good(ingot_plan_part(read, 0, &part));
  Plan from_file(read), of_it(part);
  EXPECT_EQ(algorithm_of(from_file), 5);
  EXPECT_EQ(algorithm_of(of_it), 5);
  // Other sizes are not timed.
  EXPECT_NE(loaded(timed, 5).find("numbers by algorithm 0\n"), std::string::npos) << events();
  // Another version of the library has other algorithms.
  set("cublaslt", 130100);
  EXPECT_EQ(algorithm_of(from_file), 0);
  // An algorithm that the library no longer lists.
  set("cublaslt", 130000);
  set("algorithms", 3);
  EXPECT_EQ(algorithm_of(from_file), 0);
}

TEST_F(Timed, TheUsualOneStaysWhereNoneIsFaster) {
  set("fastest", 0);
  EXPECT_EQ(algorithm_of(compiled("cuda:sm_90", "20")), 0);
  set("fastest", 12);  // beyond the list that ingot asks for
  EXPECT_EQ(algorithm_of(compiled("cuda:sm_90", "20")), 0);
  set("fastest", 4);
  set("refused_algorithm", 4);
  EXPECT_EQ(algorithm_of(compiled("cuda:sm_90", "20")), 0);
}

TEST_F(Timed, TheMostExpensiveComesFirst) {
  forget_events();
  compiled("cuda:sm_90", "20");
  std::string there = events();
  std::vector<int> sizes;
  const std::string before = "product of ", after = " numbers by algorithm 7\n";
  for (size_t at = there.find(after); at != std::string::npos; at = there.find(after, at + 1)) {
    int size = std::atoi(there.c_str() + there.rfind(before, at) + before.size());
    if (sizes.empty() || sizes.back() != size) sizes.push_back(size);
  }
  EXPECT_GE(sizes.size(), 2u) << there;
  EXPECT_TRUE(std::is_sorted(sizes.rbegin(), sizes.rend())) << testing::PrintToString(sizes);
}

TEST_F(Timed, TheCacheIsReadAndWritten) {
  Plan timed = compiled("cuda:sm_90", "20", cache);
  std::string written = text_of(cache);
  EXPECT_NE(written.find("\nPretend GPU, cuBLASLt 130000\tproduct of f32"), std::string::npos) << written;
  EXPECT_EQ(bytes_of(timed), bytes_of(compiled("cuda:sm_90", "20")));  // the plan does not contain the cache's name
  // Entries of the cache are not timed again, with and without time for it.
  set("fastest", 3);
  for (const char* seconds : {"0", "20"}) {
    forget_events();
    EXPECT_EQ(bytes_of(timed), bytes_of(compiled("cuda:sm_90", seconds, cache)));
    EXPECT_EQ(std::string(events()).find("product"), std::string::npos) << events();
    EXPECT_EQ(text_of(cache), written);
  }
  // New entries are added.
  set("cublaslt", 130100);
  EXPECT_EQ(algorithm_of(compiled("cuda:sm_90", "20", cache)), 3);
  EXPECT_EQ(text_of(cache).substr(0, written.size()), written);
  EXPECT_GT(text_of(cache).size(), written.size());
  set("cublaslt", 130000);
  EXPECT_EQ(algorithm_of(compiled("cuda:sm_90", "0", cache)), 5);
  // A file that is not a timing cache is left as it is.
  std::ofstream(cache) << "my notes";
  Told t = told(INGOT_OK);
  ingot_model* model = nullptr;
  good(ingot_model_open(INGOT_TEST_MODEL, &model));
  ingot_plan* plan = nullptr;
  t = told(ingot_compile(model, options_of({{"target", "cuda:sm_90"}, {"timing_cache", cache.c_str()}}).get(), nullptr, nullptr, &plan));
  ingot_model_release(model);
  EXPECT_EQ(t.status, INGOT_FORMAT);
  EXPECT_EQ(t.message, cache + ": this is not a timing cache: it does not start as one");
  EXPECT_EQ(t.remedy, "name another file in timing_cache, or delete this one: it is made anew");
  EXPECT_EQ(text_of(cache), "my notes");
}

// Without time or without a GPU, the plan is the same as without timing.
TEST_F(Timed, NothingIsTimedWithoutTimeOrGpu) {
  std::string usual = bytes_of(compiled("cuda:sm_90"));
  EXPECT_EQ(bytes_of(compiled("cuda:sm_90", "1e-9", cache)), usual);
  set("sm", 80);
  EXPECT_EQ(bytes_of(compiled("cuda:sm_90", "20", cache)), usual);
  set("gpus", 0);
  EXPECT_EQ(bytes_of(compiled("cuda:sm_90", "20", cache)), usual);
  EXPECT_EQ(bytes_of(compiled("cpu", "20", cache)), bytes_of(compiled("cpu")));
  EXPECT_EQ(text_of(cache), "");
}

// Bytes of the table of timings are changed and the checksums corrected: the table is refused, or its entries are only hints.
TEST_F(Timed, ADamagedTable) {
  const std::string good_bytes = bytes_of(compiled("cuda:sm_90", "20")), machine = "Pretend GPU, cuBLASLt";
  size_t begin = good_bytes.find("product of f32"), end = good_bytes.rfind("product of f32"), refused = 0, ran = 0;
  begin = std::min(begin, good_bytes.find(machine)) - 64;
  end = std::max(end, good_bytes.rfind(machine)) + 256;
  for (size_t at = begin; at < end; at += 3) {
    for (unsigned char flip : {0xff, 0x01, 0x08}) {
      SCOPED_TRACE("byte " + std::to_string(at) + " flipped by " + std::to_string(flip));
      std::string bytes = good_bytes;
      bytes[at] = static_cast<char>(static_cast<unsigned char>(bytes[at]) ^ flip);
      if (!ingot::plan::seal(std::as_writable_bytes(std::span(bytes)))) continue;
      ingot_plan* read = nullptr;
      ingot_status status = ingot_plan_load_memory_with(bytes.data(), bytes.size(), INGOT_TRUST_CODE, &read);
      const Plan damaged(read);
      Weights its_weights;
      Session its_session;
      if (status == INGOT_OK) status = make(damaged, its_weights);
      if (status == INGOT_OK) status = make(damaged, its_weights, its_session);
      if (status == INGOT_OK) status = run_model(its_session, 3);
      status == INGOT_OK ? ++ran : ++refused;
      EXPECT_TRUE(status == INGOT_OK || status == INGOT_FORMAT || status == INGOT_VERSION) << ingot_last_error()->message;
    }
  }
  EXPECT_GT(ran, 10u);
  EXPECT_GT(refused, 10u);
  std::printf("%zu tables refused, %zu ran\n", refused, ran);
}

TEST_F(Timed, AGpuThatSaysNoLeavesThePlan) {
  std::string usual = bytes_of(compiled("cuda:sm_90")), timed = bytes_of(compiled("cuda:sm_90", "20"));
  for (const char* setting : {"fail_allocation", "fail_call"}) {
    long long k = 1;
    for (;; k += k < 64 ? 1 : 37) {
      SCOPED_TRACE(std::string(setting) + " " + std::to_string(k));
      set(setting, k);
      std::string made = bytes_of(compiled("cuda:sm_90", "20"));
      EXPECT_TRUE(made == usual || made == timed || get(setting) == 0);
      ASSERT_EQ(taken(), taken_);
      ASSERT_EQ(of_products("live"), 0);
      if (HasFailure() || get(setting) > 0) break;
    }
    set(setting, 0);
    EXPECT_GT(k, 8);
  }
}

}  // namespace
