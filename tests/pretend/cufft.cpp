// A libcufft.so.12 that keeps plans with memory for their tables, and counts transforms, for plans with Fourier transforms on the pretend driver.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "backend/cuda/run/driver.h"
#include "pretend.h"

using namespace ingot::backend::cuda;

namespace {

enum Status : int { success = 0, invalid_plan = 1, no_memory = 2, invalid_value = 4, failed = 5 };
constexpr size_t table_bytes = 512, workspace_bytes = 4096;

struct Kept {
  bool automatic = true, made = false;
  Address table = 0;
  void* workspace = nullptr;
  StreamHandle stream = nullptr;
  long long numbers = 0;
};

std::mutex mutex;
std::map<int, Kept> plans;
int last = 0;

// The pretend driver of this process.
template <class F>
F* driver_function(const char* name) {
  void* handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) std::abort();
  return reinterpret_cast<F*>(dlsym(handle, name));
}
bool call_fails() {
  static const auto fails = driver_function<int()>("pretend_call_fails");
  return fails() != 0;
}

// A plan of this number and the call's status: `then` if there is one and the call does not fail.
template <class F>
int with(int plan, F then) {
  std::lock_guard lock(mutex);
  auto found = plans.find(plan);
  if (found == plans.end()) return invalid_plan;
  return call_fails() ? failed : then(found->second);
}

}  // namespace

extern "C" {

#define X(name, symbol, arguments) int symbol arguments;
#include "backend/cuda/run/cufft.def"
int cufftGetVersion(int* version);

long long pretend_transforms_live() {
  std::lock_guard lock(mutex);
  return static_cast<long long>(plans.size());
}

int cufftGetVersion(int* version) {
  *version = 12000;
  return success;
}
int cufftCreate(int* plan) {
  std::lock_guard lock(mutex);
  if (call_fails()) return failed;
  plans[*plan = ++last] = {};
  return success;
}
int cufftDestroy(int plan) {
  static const auto free = driver_function<int(Address)>("cuMemFree_v2");
  std::lock_guard lock(mutex);
  auto found = plans.find(plan);
  if (found == plans.end()) return invalid_plan;
  if (found->second.table != 0) free(found->second.table);
  plans.erase(found);
  return success;
}
int cufftSetAutoAllocation(int plan, int automatic) {
  return with(plan, [&](Kept& k) {
    k.automatic = automatic != 0;
    return success;
  });
}
int cufftXtMakePlanMany(int plan, int rank, long long* lengths, long long*, long long, long long, int, long long*, long long, long long, int, long long count, size_t* workspace,
                        int) {
  static const auto allocate = driver_function<int(Address*, size_t)>("cuMemAlloc_v2");
  return with(plan, [&](Kept& k) {
    if (k.made || k.automatic || rank < 1 || rank > 3) return invalid_value;
    constexpr int out_of_memory = 2;  // of the driver
    if (int error = allocate(&k.table, table_bytes); error != 0) return error == out_of_memory ? no_memory : failed;
    k.made = true;
    k.numbers = count;
    for (int i = 0; i < rank; ++i) k.numbers *= lengths[i];
    *workspace = workspace_bytes;
    return success;
  });
}
int cufftSetWorkArea(int plan, void* memory) {
  return with(plan, [&](Kept& k) {
    k.workspace = memory;
    return success;
  });
}
int cufftSetStream(int plan, StreamHandle stream) {
  return with(plan, [&](Kept& k) {
    k.stream = stream;
    return success;
  });
}
int cufftXtExec(int plan, void*, void*, int) {
  static const auto work = driver_function<void(void*, long long, const char*)>("pretend_work");
  return with(plan, [&](Kept& k) {
    if (!k.made || k.workspace == nullptr) return invalid_value;
    work(k.stream, 1000 + k.numbers, ("transform of " + std::to_string(k.numbers) + " numbers").c_str());
    return success;
  });
}

}  // extern "C"

namespace {

// The linker says when one is missing.
[[maybe_unused]] void* const all[] = {
#define X(name, symbol, arguments) reinterpret_cast<void*>(&symbol),
#include "backend/cuda/run/cufft.def"
};

}  // namespace
