// A libcublasLt.so.13 that keeps handles and counts products, for plans with products on the pretend driver.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "backend/cuda/run/driver.h"
#include "pretend.h"

using namespace ingot::backend::cuda;

namespace {

struct Found {
  uint64_t algorithm[8];
  size_t workspace;
  int status;
  float waves;
  int reserved[4];
};

std::atomic<long long> live{0}, products{0}, algorithm_used{-1};

int make(void** out, uint64_t size = 0) {
  *out = new uint64_t(size);
  ++live;
  return 0;
}
int drop(void* handle) {
  delete static_cast<uint64_t*>(handle);
  --live;
  return 0;
}
uint64_t size_of(void* layout) { return *static_cast<uint64_t*>(layout); }

// The pretend driver of this process.
template <class F>
F* driver_function(const char* name) {
  void* handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) std::abort();
  return reinterpret_cast<F*>(dlsym(handle, name));
}
long long setting(const char* name) {
  static const auto get = driver_function<long long(const char*)>("pretend_get");
  return get(name);
}

}  // namespace

extern "C" {

#define X(name, symbol, arguments) int symbol arguments;
#include "backend/cuda/run/cublaslt.def"

long long pretend_products_get(const char* name) {
  std::string_view which = name;
  return which == "live" ? live : which == "algorithm" ? algorithm_used : products;
}

const char* cublasLtGetStatusString(int) { return "a status"; }
size_t cublasLtGetVersion() { return static_cast<size_t>(setting("cublaslt")); }
int cublasLtCreate(void** handle) { return make(handle); }
int cublasLtDestroy(void* handle) { return drop(handle); }
int cublasLtMatmulDescCreate(void** out, int, int) { return make(out); }
int cublasLtMatmulDescDestroy(void* description) { return drop(description); }
int cublasLtMatmulDescSetAttribute(void*, int, const void*, size_t) { return 0; }
int cublasLtMatrixLayoutCreate(void** out, int, uint64_t rows, uint64_t columns, int64_t) { return make(out, rows * columns); }
int cublasLtMatrixLayoutDestroy(void* layout) { return drop(layout); }
int cublasLtMatrixLayoutSetAttribute(void*, int, const void*, size_t) { return 0; }
int cublasLtMatmulPreferenceCreate(void** out) { return make(out); }
int cublasLtMatmulPreferenceDestroy(void* preference) { return drop(preference); }
int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t) { return 0; }
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int wanted, Found* out, int* found) {
  *found = std::min(wanted, static_cast<int>(setting("algorithms")));
  for (int i = 0; i < *found; ++i) {
    out[i] = {};
    out[i].algorithm[0] = static_cast<uint64_t>(i);
    out[i].workspace = 4096 * static_cast<size_t>(i + 1);
  }
  return 0;
}
int cublasLtMatmul(void*, void*, const void*, const void*, void* a, const void*, void* b, const void*, const void*, void*, void*, void* d, const uint64_t* algorithm, void*,
                   size_t workspace, StreamHandle stream) {
  static const auto work = driver_function<void(void*, long long, const char*)>("pretend_work");
  constexpr int not_supported = 15;
  auto which = static_cast<long long>(algorithm[0]);
  if (which == setting("refused_algorithm") || which >= setting("algorithms") || workspace < 4096 * static_cast<size_t>(which + 1)) return not_supported;
  ++products;
  algorithm_used = which;
  auto size = static_cast<long long>(size_of(a) + size_of(b) + size_of(d));
  work(stream, (1000 + size) * (which == setting("fastest") ? 1 : 2), ("product of " + std::to_string(size) + " numbers by algorithm " + std::to_string(which)).c_str());
  return 0;
}

}  // extern "C"

namespace {

// The linker says when one is missing.
[[maybe_unused]] void* const all[] = {
#define X(name, symbol, arguments) reinterpret_cast<void*>(&symbol),
#include "backend/cuda/run/cublaslt.def"
};

}  // namespace
