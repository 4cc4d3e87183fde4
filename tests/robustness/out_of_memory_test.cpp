// Every allocation fails once. The call it fails in must say so and, with memory again, must then succeed on the same objects; at the end
// the answers are right and nothing is left allocated.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "ingot/ingot.h"

namespace {

// Allocations until one fails; how many fail from then on.
std::atomic<int64_t> until_failure{INT64_MAX}, failures{0};
std::atomic<int64_t> allocations{0}, live{0};

bool fails() {
  ++allocations;
  return --until_failure < 0 && --failures >= 0;
}

void* allocate(size_t bytes, size_t alignment) {
  void* p = nullptr;
  if (fails() || ::posix_memalign(&p, std::max(alignment, sizeof(void*)), std::max<size_t>(bytes, 1)) != 0) return nullptr;
  return p;
}

void* allocate_or_null(size_t bytes, size_t alignment) {
  void* p = allocate(bytes, alignment);
  if (p != nullptr) ++live;
  return p;
}

void* allocate_or_throw(size_t bytes, size_t alignment) {
  if (void* p = allocate_or_null(bytes, alignment)) return p;
  throw std::bad_alloc();
}

void release(void* p) {
  if (p != nullptr) --live;
  std::free(p);
}

}  // namespace

// A program's own definitions serve its libraries too.
void* operator new(size_t bytes) { return allocate_or_throw(bytes, alignof(std::max_align_t)); }
void* operator new(size_t bytes, std::align_val_t alignment) { return allocate_or_throw(bytes, static_cast<size_t>(alignment)); }
void* operator new[](size_t bytes) { return operator new(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return allocate_or_null(bytes, alignof(std::max_align_t)); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return allocate_or_null(bytes, alignof(std::max_align_t)); }
void operator delete[](void* p) noexcept { release(p); }
void operator delete[](void* p, size_t) noexcept { release(p); }
void operator delete(void* p) noexcept { release(p); }
void operator delete(void* p, size_t) noexcept { release(p); }
void operator delete(void* p, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { release(p); }
extern "C" void* aligned_alloc(size_t alignment, size_t bytes) { return allocate(bytes, alignment); }

namespace {

// Calls `step`; when memory fails it, the same call must succeed once there is memory again.
template <class F>
void attempt(const char* name, F step) {
  if (step() == INGOT_OK) return;
  EXPECT_EQ(ingot_last_error()->status, INGOT_OUT_OF_MEMORY) << name << ": " << ingot_last_error()->message;
  until_failure = INT64_MAX;
  EXPECT_EQ(step(), INGOT_OK) << name << " after a failure: " << ingot_last_error()->message;
}
#define ATTEMPT(call) attempt(#call, [&] { return call; })

const char* const model_path = INGOT_TEST_MODEL;

// model.pt2 -> plan -> its description.
std::string build(ingot_plan** out) {
  ingot_model* model = nullptr;
  ingot_options* options = nullptr;
  ingot_plan* plan = nullptr;
  char* text = nullptr;
  ATTEMPT(ingot_model_open(model_path, &model));
  ATTEMPT(ingot_model_set_dim(model, "x", 0, 1, 4, 32, "batch"));
  ATTEMPT(ingot_options_create(&options));
  ATTEMPT(ingot_options_set(options, "threads", "4"));
  ATTEMPT(ingot_compile(model, options, nullptr, nullptr, &plan));
  ATTEMPT(ingot_plan_programs(plan, &text));
  ingot_string_release(text);
  ATTEMPT(ingot_plan_describe(plan, &text));
  until_failure = INT64_MAX;
  std::string described = text;
  ingot_string_release(text);
  ingot_options_release(options);
  ingot_model_release(model);
  out != nullptr ? void(*out = plan) : ingot_plan_release(plan);
  return described;
}

// plan -> answers for two batch sizes, one of them from a transposed input and with weights set anew.
std::vector<float> run(const char* path) {
  ingot_options* options = nullptr;
  ingot_plan* plan = nullptr;
  ingot_weights* weights = nullptr;
  ingot_session* session = nullptr;
  ATTEMPT(ingot_options_create(&options));
  ATTEMPT(ingot_options_set(options, "threads", "4"));
  ATTEMPT(ingot_plan_load(path, &plan));
  ATTEMPT(ingot_weights_create(plan, options, &weights));
  ATTEMPT(ingot_session_create(plan, weights, 0, options, &session));
  // Memory of the test's own is not what is tested: arrays.
  float in[5 * 16], answers[5 * 4 + 3 * 4], bias[32];
  for (int i = 0; i < 5 * 16; ++i) in[i] = static_cast<float>(i % 7) - 3;
  for (int i = 0; i < 32; ++i) bias[i] = static_cast<float>(i % 3);
  int64_t dims[] = {5, 16}, other_dims[] = {3, 16}, transposed[] = {1, 3}, out_dims[] = {5, 4}, other_out_dims[] = {3, 4};
  ingot_tensor x = {in, INGOT_FLOAT32, 2, dims, nullptr}, y = {answers, INGOT_FLOAT32, 2, out_dims, nullptr};
  ATTEMPT(ingot_session_resolve(session, &x, 1));
  ATTEMPT(ingot_session_run_with(session, &x, 1, &y, 1));
  ATTEMPT(ingot_weights_set(weights, "l1.bias", bias, sizeof bias, nullptr, 1));
  ATTEMPT(ingot_weights_commit(weights));
  x = {in, INGOT_FLOAT32, 2, other_dims, transposed};
  y = {answers + 5 * 4, INGOT_FLOAT32, 2, other_out_dims, nullptr};
  ATTEMPT(ingot_session_run_with(session, &x, 1, &y, 1));
  ATTEMPT(ingot_session_run_with(session, &x, 1, &y, 1));
  until_failure = INT64_MAX;
  ingot_session_release(session);
  ingot_weights_release(weights);
  ingot_plan_release(plan);
  ingot_options_release(options);
  return {std::begin(answers), std::end(answers)};
}

// plan -> answers of two states, one forked from the other after a token.
std::vector<float> run_states(const char* path) {
  ingot_plan* plan = nullptr;
  ingot_weights* weights = nullptr;
  ingot_session* session = nullptr;
  ingot_state *a = nullptr, *b = nullptr;
  float answers[3 * 32];
  int64_t id = 3, position = 0, dims[] = {1}, out_dims[] = {1, 32};
  const ingot_tensor x = {&id, INGOT_INT64, 1, dims, nullptr};
  auto step = [&](int n) {
    const ingot_tensor y = {answers + 32 * n, INGOT_FLOAT32, 2, out_dims, nullptr};
    ATTEMPT(ingot_session_run_with(session, &x, 1, &y, 1));
  };
  ATTEMPT(ingot_plan_load(path, &plan));
  ATTEMPT(ingot_weights_create(plan, nullptr, &weights));
  ATTEMPT(ingot_session_create(plan, weights, 0, nullptr, &session));
  ATTEMPT(ingot_state_create(plan, weights, &a));
  ATTEMPT(ingot_session_set_state(session, a));
  step(0);
  ATTEMPT(ingot_state_fork(a, &b));
  step(1);
  ATTEMPT(ingot_session_set_state(session, b));
  id = 7;
  step(2);
  ATTEMPT(ingot_state_copy(a, b));
  ATTEMPT(ingot_state_reset(b));
  ATTEMPT(ingot_state_read(a, "position", &position, sizeof position));
  until_failure = INT64_MAX;
  EXPECT_EQ(position, 2);
  ingot_state_release(a);
  ingot_session_release(session);
  ingot_state_release(b);
  ingot_weights_release(weights);
  ingot_plan_release(plan);
  return {std::begin(answers), std::end(answers)};
}

// The thread's last error holds memory; the same error, the same memory.
int64_t live_now() {
  ingot_plan_save(nullptr, nullptr);
  return live;
}

// Fails allocation 0, 1, 2... of `life` (every one when INGOT_TEST_ALL is set), alone and with all that follow.
template <class F>
void fail_each(F life, int64_t positions) {
  const auto expected = life();  // fills what is made once, too
  life();
  const int64_t start = allocations;
  life();
  const int64_t total = allocations - start;
  const int64_t stride = std::getenv("INGOT_TEST_ALL") != nullptr ? 1 : std::max<int64_t>(1, total / positions);
  for (int64_t many : {int64_t{1}, INT64_MAX}) {
    for (int64_t k = 0; k < total && !testing::Test::HasFailure(); k += stride) {
      SCOPED_TRACE("allocation " + std::to_string(k) + " of " + std::to_string(total));
      const int64_t before = live_now();
      {
        failures = many;
        until_failure = k;
        auto answers = life();
        EXPECT_TRUE(answers == expected);
      }
      EXPECT_EQ(live_now(), before) << "allocations are left";
    }
  }
  std::printf("%lld allocations, every %lld tried\n", static_cast<long long>(total), static_cast<long long>(stride));
}

// Tables that are made once must be made at the next use when their first failed: each position in a process that has not built anything yet.
TEST(OutOfMemory, FirstUse) {
  const int64_t stride = std::getenv("INGOT_TEST_ALL") != nullptr ? 1 : 53;
  constexpr int good = 0, bad = 1, past_the_end = 2;
  for (int64_t k = 0, status = good; status == good; k += stride) {
    pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      failures = 1;
      until_failure = k;
      bool same = build(nullptr) == build(nullptr);
      ::_exit(HasFailure() || !same ? bad : failures == 1 ? past_the_end : good);
    }
    int result = 0;
    ASSERT_EQ(::waitpid(child, &result, 0), child);
    status = WIFEXITED(result) ? WEXITSTATUS(result) : bad;
    EXPECT_NE(status, bad) << "allocation " << k;
  }
}

TEST(OutOfMemory, Build) {
  fail_each([] { return build(nullptr); }, 300);
}

TEST(OutOfMemory, Run) {
  ingot_plan* plan = nullptr;
  build(&plan);
  std::string path = testing::TempDir() + "out_of_memory.ingot";
  ASSERT_EQ(ingot_plan_save(plan, path.c_str()), INGOT_OK);
  ingot_plan_release(plan);
  fail_each([&] { return run(path.c_str()); }, 5000);
  std::remove(path.c_str());
}

TEST(OutOfMemory, States) {
  ingot_model* model = nullptr;
  ingot_plan* plan = nullptr;
  ASSERT_EQ(ingot_model_open(INGOT_TEST_DECODER, &model), INGOT_OK);
  ASSERT_EQ(ingot_compile(model, nullptr, nullptr, nullptr, &plan), INGOT_OK);
  ingot_model_release(model);
  std::string path = testing::TempDir() + "out_of_memory_states.ingot";
  ASSERT_EQ(ingot_plan_save(plan, path.c_str()), INGOT_OK);
  ingot_plan_release(plan);
  fail_each([&] { return run_states(path.c_str()); }, 5000);
  std::remove(path.c_str());
}

}  // namespace
