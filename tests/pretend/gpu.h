// Shared by the tests on the pretend driver: its settings and counts, handles of ingot.h that release themselves, fixtures that look for leaks, and models to run.
#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "ingot/ingot.h"

template <class F>
F* symbol(const char* library, const char* name) {
  void* handle = dlopen((std::string(INGOT_PRETEND_FOLDER "/") + library).c_str(), RTLD_NOW);
  if (handle == nullptr) std::fprintf(stderr, "%s\n", dlerror()), std::abort();
  return reinterpret_cast<F*>(dlsym(handle, name));
}
// Loaded before ingot looks for a driver, so it is the driver of the process even if there is a real one.
inline const auto set = symbol<void(const char*, long long)>("libcuda.so.1", "pretend_set");
inline const auto get = symbol<long long(const char*)>("libcuda.so.1", "pretend_get");
inline const auto events = symbol<const char*()>("libcuda.so.1", "pretend_events");
inline const auto forget_events = symbol<void()>("libcuda.so.1", "pretend_forget_events");
inline const auto live_transforms = symbol<long long()>("libcufft.so.12", "pretend_transforms_live");
inline const auto of_products = symbol<long long(const char*)>("libcublasLt.so.13", "pretend_products_get");

template <class T, void (*Release)(T*)>
struct Releaser {
  void operator()(T* p) const { Release(p); }
};
using Options = std::unique_ptr<ingot_options, Releaser<ingot_options, ingot_options_release>>;
using Plan = std::unique_ptr<ingot_plan, Releaser<ingot_plan, ingot_plan_release>>;
using Weights = std::unique_ptr<ingot_weights, Releaser<ingot_weights, ingot_weights_release>>;
using Session = std::unique_ptr<ingot_session, Releaser<ingot_session, ingot_session_release>>;

inline void good(ingot_status status) { ASSERT_EQ(status, INGOT_OK) << ingot_last_error()->message; }

inline Options options_of(const std::vector<std::pair<const char*, const char*>>& list) {
  ingot_options* made = nullptr;
  good(ingot_options_create(&made));
  for (auto [name, value] : list) good(ingot_options_set(made, name, value));
  return Options(made);
}

// A model for sm_90; null without NVRTC.
inline Plan compiled_for_gpu(const char* model_path) {
  ingot_model* model = nullptr;
  good(ingot_model_open(model_path, &model));
  const Options options = options_of({{"target", "cuda:sm_90"}});
  ingot_plan* plan = nullptr;
  ingot_status status = ingot_compile(model, options.get(), nullptr, nullptr, &plan);
  if (status != INGOT_DEVICE) good(status);
  ingot_model_release(model);
  return Plan(plan);
}

inline const ingot_options* on_gpu() {
  static const Options options = options_of({{"device", "cuda"}});
  return options.get();
}

// `limit`: option memory_bytes.
inline ingot_status make(const Plan& plan, Weights& out, int64_t limit = 0) {
  const Options options = options_of({{"device", "cuda"}, {"memory_bytes", std::to_string(limit).c_str()}});
  ingot_weights* made = nullptr;
  ingot_status status = ingot_weights_create(plan.get(), options.get(), &made);
  if (status == INGOT_OK) out.reset(made);
  return status;
}
inline ingot_status make(const Plan& plan, const Weights& weights, Session& out) {
  ingot_session* made = nullptr;
  ingot_status status = ingot_session_create(plan.get(), weights.get(), 0, on_gpu(), &made);
  if (status == INGOT_OK) out.reset(made);
  return status;
}
struct Told {
  ingot_status status;
  std::string message, remedy;
};
inline Told told(ingot_status) {
  const ingot_error* e = ingot_last_error();
  return {e->status, e->message, e->remedy};
}

// The number of live things of the driver, without the host memory in which streams report errors: it stays, with its context.
inline long long taken() { return get("live") - 2 * get("host_memory"); }

class OnPretendGpu : public testing::Test {
 protected:
  void SetUp() override {
    for (auto [name, value] : {std::pair{"gpus", 1LL},
                               {"sm", 90LL},
                               {"driver", 13000LL},
                               {"memory", 8LL << 30},
                               {"fail_allocation", 0LL},
                               {"fail_call", 0LL},
                               {"algorithms", 1LL},
                               {"fastest", 0LL},
                               {"refused_algorithm", -1LL},
                               {"cublaslt", 130000LL}})
      set(name, value);
    taken_ = taken();
    forget_events();
  }
  // Everything taken from the driver was given back, and nothing was used after that.
  void TearDown() override {
    EXPECT_EQ(taken(), taken_);
    EXPECT_LE(get("host_memory"), 12);  // whatever the number of streams
    EXPECT_EQ(get("allocations"), get("frees"));
    EXPECT_EQ(get("mistakes"), 0) << events();
    EXPECT_EQ(of_products("live"), 0);
    EXPECT_EQ(live_transforms(), 0);
  }
  long long taken_ = 0;
};

// A test with a plan of one model; skipped without NVRTC. start() makes weights and a session for it.
class WithPlan : public OnPretendGpu {
 protected:
  explicit WithPlan(const char* model_path) : model_path_(model_path) {}
  void SetUp() override {
    OnPretendGpu::SetUp();
    plan = compiled_for_gpu(model_path_);
    if (plan == nullptr) GTEST_SKIP() << ingot_last_error()->message;
    forget_events();
  }
  void TearDown() override {
    session.reset();
    weights.reset();
    OnPretendGpu::TearDown();
  }
  void start(int64_t limit = 0) {
    good(make(plan, weights, limit));
    good(make(plan, weights, session));
  }

  Plan plan;
  Weights weights;
  Session session;

 private:
  const char* model_path_;
};

// Work that a caller recorded in its own stream, as it runs it later.
class CallersGraph {
 public:
  CallersGraph(void* exec, void* stream) : exec_(exec), stream_(stream) {}
  ~CallersGraph() { symbol<int(void*)>("libcuda.so.1", "cuGraphExecDestroy")(exec_); }
  CallersGraph(const CallersGraph&) = delete;
  int replay() const { return symbol<int(void*, void*)>("libcuda.so.1", "cuGraphLaunch")(exec_, stream_); }

 private:
  void *exec_, *stream_;
};

// A stream and memory of the caller, on the device.
class OfCaller {
 public:
  explicit OfCaller(size_t bytes) {
    of_driver<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context_, 0);
    of_driver<int(void*)>("cuCtxPushCurrent_v2")(context_);
    of_driver<int(void**, unsigned)>("cuStreamCreate")(&stream, 1);
    of_driver<int(uint64_t*, size_t)>("cuMemAlloc_v2")(&memory_, bytes);
  }
  ~OfCaller() {
    of_driver<int(uint64_t)>("cuMemFree_v2")(memory_);
    of_driver<int(void*)>("cuStreamDestroy_v2")(stream);
    of_driver<int(void**)>("cuCtxPopCurrent_v2")(&context_);
    of_driver<int(int)>("cuDevicePrimaryCtxRelease_v2")(0);
  }
  OfCaller(const OfCaller&) = delete;
  // What `run` adds to the stream; null: it fails, or the driver does.
  template <class F>
  std::unique_ptr<CallersGraph> record(F run) const {
    void *graph = nullptr, *exec = nullptr;
    if (of_driver<int(void*, int)>("cuStreamBeginCapture_v2")(stream, 0) != 0) return nullptr;
    const ingot_status status = run();
    of_driver<int(void*, void**)>("cuStreamEndCapture")(stream, &graph);
    const int error = of_driver<int(void**, void*, unsigned long long)>("cuGraphInstantiateWithFlags")(&exec, graph, 0);
    of_driver<int(void*)>("cuGraphDestroy")(graph);
    if (error != 0) return nullptr;
    auto out = std::make_unique<CallersGraph>(exec, stream);
    return status == INGOT_OK ? std::move(out) : nullptr;
  }
  void* at(size_t offset) const { return reinterpret_cast<void*>(memory_ + offset); }
  void* stream = nullptr;

 protected:
  template <class F>
  static F* of_driver(const char* name) {
    return symbol<F>("libcuda.so.1", name);
  }

 private:
  void* context_ = nullptr;
  uint64_t memory_ = 0;
};

// Runs INGOT_TEST_MODEL on host tensors with this number of rows.
inline ingot_status run_model(const Session& session, int64_t rows) {
  std::vector<float> numbers(static_cast<size_t>(rows) * 8, 1), answers(static_cast<size_t>(rows) * 4), turned(answers.size());
  float one = 0;
  const int64_t x[] = {rows, 8}, y[] = {rows, 2}, a[] = {rows, 4}, b[] = {4, rows};
  const ingot_tensor inputs[] = {{numbers.data(), INGOT_FLOAT32, 2, x, nullptr}, {numbers.data(), INGOT_FLOAT32, 2, y, nullptr}};
  const ingot_tensor outputs[] = {{answers.data(), INGOT_FLOAT32, 2, a, nullptr}, {turned.data(), INGOT_FLOAT32, 2, b, nullptr}, {&one, INGOT_FLOAT32, 0, x, nullptr}};
  return ingot_session_run_with(session.get(), inputs, 2, outputs, 3);
}

// Runs INGOT_TEST_DECODER, which has a state, for one token.
inline ingot_status run_decoder(const Session& session) {
  int64_t id = 3;
  float answers[32];
  const int64_t one[] = {1}, dims[] = {1, 32};
  const ingot_tensor x{&id, INGOT_INT64, 1, one, nullptr}, y{answers, INGOT_FLOAT32, 2, dims, nullptr};
  return ingot_session_run_with(session.get(), &x, 1, &y, 1);
}

// Calls `step`. If it fails, it must fail with this status and a message, and the same call must succeed afterwards.
template <class F>
void attempt(const char* name, ingot_status wanted, F step) {
  ingot_status status = step();
  if (status == INGOT_OK) return;
  EXPECT_EQ(status, wanted) << name << ": " << ingot_last_error()->message;
  EXPECT_STRNE(ingot_last_error()->message, "") << name;
  EXPECT_EQ(get("mistakes"), 0) << name << ": " << events();
  EXPECT_EQ(step(), INGOT_OK) << name << " after a failure: " << ingot_last_error()->message;
}

// Calls `live()` again and again. Each time another allocation or call fails, until none does; there are more than `least`.
template <class F>
void fail_each(const char* setting, F live, long long least = 7) {
  live();
  long long k = 1, before = taken();
  for (;; ++k) {
    SCOPED_TRACE(std::string(setting) + " " + std::to_string(k));
    set(setting, k);
    live();
    ASSERT_EQ(taken(), before);
    ASSERT_EQ(of_products("live"), 0);
    if (testing::Test::HasFailure() || get(setting) > 0) break;  // none failed: all were tried
  }
  set(setting, 0);
  EXPECT_GT(k - 1, least);
  std::printf("%lld failures\n", k - 1);
}
