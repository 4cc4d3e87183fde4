// A libcublasLt.so.13 that keeps handles and counts products, for plans with products on the pretend driver.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "backend/cuda/driver.h"
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

std::atomic<long long> live{0}, products{0};

int make(void** out) {
  *out = new char;
  ++live;
  return 0;
}
int drop(void* handle) {
  delete static_cast<char*>(handle);
  --live;
  return 0;
}

}  // namespace

extern "C" {

#define X(name, symbol, arguments) int symbol arguments;
#include "backend/cuda/cublaslt_run.def"

long long pretend_products_get(const char* name) { return std::string_view(name) == "live" ? live : products; }

const char* cublasLtGetStatusString(int) { return "a status"; }
int cublasLtCreate(void** handle) { return make(handle); }
int cublasLtDestroy(void* handle) { return drop(handle); }
int cublasLtMatmulDescCreate(void** out, int, int) { return make(out); }
int cublasLtMatmulDescDestroy(void* description) { return drop(description); }
int cublasLtMatmulDescSetAttribute(void*, int, const void*, size_t) { return 0; }
int cublasLtMatrixLayoutCreate(void** out, int, uint64_t, uint64_t, int64_t) { return make(out); }
int cublasLtMatrixLayoutDestroy(void* layout) { return drop(layout); }
int cublasLtMatrixLayoutSetAttribute(void*, int, const void*, size_t) { return 0; }
int cublasLtMatmulPreferenceCreate(void** out) { return make(out); }
int cublasLtMatmulPreferenceDestroy(void* preference) { return drop(preference); }
int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t) { return 0; }
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int, Found* out, int* found) {
  *out = {};
  out->workspace = 4096;
  *found = 1;
  return 0;
}
int cublasLtMatmul(void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*, void*, void*, const uint64_t*, void*, size_t, StreamHandle) {
  ++products;
  return 0;
}

}  // extern "C"

namespace {

// The linker says when one is missing.
[[maybe_unused]] void* const all[] = {
#define X(name, symbol, arguments) reinterpret_cast<void*>(&symbol),
#include "backend/cuda/cublaslt_run.def"
};

}  // namespace
