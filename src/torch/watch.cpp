#include "torch/watch.h"

#include <dlfcn.h>

#include <array>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>

namespace ingot_torch {

void Watch::set(const Word* words, size_t count, const HalfWord* halves, size_t half_count, bool unknown) {
  std::unique_lock lock(mutex_);
  words_.assign(words, words + count);
  halves_.assign(halves, halves + half_count);
  unknown_ = unknown;
}

namespace {

// In a call the words are in no cache: the next ones are prefetched while one is compared.
template <typename Word>
bool unchanged(const std::vector<Word>& words) {
  constexpr size_t ahead = 24;
  const size_t count = words.size();
  for (size_t i = 0; i < count; ++i) {
    if (i + ahead < count) __builtin_prefetch(words[i + ahead].at);
    if (__atomic_load_n(words[i].at, __ATOMIC_RELAXED) != words[i].value) return false;
  }
  return true;
}

}  // namespace

bool Watch::same() const {
  std::shared_lock lock(mutex_);
  return !unknown_ && unchanged(words_) && unchanged(halves_);
}

void Watch::follow() const {
  if (same()) return;
  std::array<char, 4096> text{};
  if (int status = changed_(text.data(), text.size() - 1)) throw std::runtime_error("[ingot:" + std::to_string(status) + "] " + text.data());
}

}  // namespace ingot_torch

using ingot_torch::Watch;

// Called by python/ingot/engine/watch.py.
extern "C" __attribute__((visibility("default"))) void* ingot_torch_watch_create(Watch::Changed changed) { return new Watch(changed); }

extern "C" __attribute__((visibility("default"))) void ingot_torch_watch_release(void* watch) { delete static_cast<Watch*>(watch); }

extern "C" __attribute__((visibility("default"))) void ingot_torch_watch_set(void* watch, const Watch::Word* words, size_t count, const Watch::HalfWord* halves, size_t half_count,
                                                                             int unknown) {
  static_cast<Watch*>(watch)->set(words, count, halves, half_count, unknown != 0);
}

extern "C" __attribute__((visibility("default"))) int ingot_torch_watch_same(const void* watch) { return static_cast<const Watch*>(watch)->same() ? 1 : 0; }

// The address of torch's write counter of a tensor (an at::TensorImpl with a counter). torch::autograd::impl::version_counter returns a pointer to a
// reference-counted object that starts with a vtable and its count. Not in the stable ABI, so it is looked up; null if it is missing.
extern "C" __attribute__((visibility("default"))) const uint32_t* ingot_torch_count_of(const void* tensor) {
  using Counter = const char* const* (*)(const void* const* tensor);
  static const auto counter = reinterpret_cast<Counter>(dlsym(RTLD_DEFAULT, "_ZN5torch8autograd4impl15version_counterERKN2at6TensorE"));
  return counter != nullptr ? reinterpret_cast<const uint32_t*>(*counter(&tensor) + 16) : nullptr;
}
