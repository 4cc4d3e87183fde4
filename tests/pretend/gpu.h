// What tests on the pretend driver share: its settings and counts, handles of ingot.h that release themselves, and a fixture that looks for what was left behind.
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
// Loaded before ingot looks for it, this is the driver of the process also where there is a real one.
inline const auto set = symbol<void(const char*, long long)>("libcuda.so.1", "pretend_set");
inline const auto get = symbol<long long(const char*)>("libcuda.so.1", "pretend_get");
inline const auto events = symbol<const char*()>("libcuda.so.1", "pretend_events");
inline const auto forget_events = symbol<void()>("libcuda.so.1", "pretend_forget_events");
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

inline ingot_status make(const Plan& plan, Weights& out) {
  ingot_weights* made = nullptr;
  ingot_status status = ingot_weights_create(plan.get(), on_gpu(), &made);
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

// What was taken from the driver, but for the memory of the host that lanes report in: it stays, with the context it is in.
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
  // All that was taken from the driver has gone back, and nothing was used that was gone.
  void TearDown() override {
    EXPECT_EQ(taken(), taken_);
    EXPECT_LE(get("host_memory"), 12);  // however many lanes there were
    EXPECT_EQ(get("allocations"), get("frees"));
    EXPECT_EQ(get("mistakes"), 0) << events();
    EXPECT_EQ(of_products("live"), 0);
  }
  long long taken_ = 0;
};

// Calls `step`; what fails must say so with this status, and the same call must succeed afterwards.
template <class F>
void attempt(const char* name, ingot_status wanted, F step) {
  ingot_status status = step();
  if (status == INGOT_OK) return;
  EXPECT_EQ(status, wanted) << name << ": " << ingot_last_error()->message;
  EXPECT_STRNE(ingot_last_error()->message, "") << name;
  EXPECT_EQ(get("mistakes"), 0) << name << ": " << events();
  EXPECT_EQ(step(), INGOT_OK) << name << " after a failure: " << ingot_last_error()->message;
}

// `live()` over and over, each time with another allocation or call failing, until none does.
template <class F>
void fail_each(const char* setting, F live) {
  live();
  long long k = 1, before = taken();
  for (;; ++k) {
    SCOPED_TRACE(std::string(setting) + " " + std::to_string(k));
    set(setting, k);
    live();
    ASSERT_EQ(taken(), before);
    ASSERT_EQ(of_products("live"), 0);
    if (testing::Test::HasFailure() || get(setting) > 0) break;  // none failed: that was all of them
  }
  set(setting, 0);
  EXPECT_GT(k, 8);
  std::printf("%lld failures\n", k - 1);
}
