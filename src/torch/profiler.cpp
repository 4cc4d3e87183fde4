// Shows the steps of runs in torch.profiler's tables and traces, as ranges on the thread that runs.
#include <dlfcn.h>

#include <string>

#include "ingot/ingot.h"

namespace {

// at::hasCallbacks and the C functions for ranges are not in the stable ABI, so they are looked up; a torch without them shows no steps.
struct Functions {
  bool (*has_callbacks)();
  int (*begin)(const char* name, void* kwargs, const void* inputs, uint64_t count, void** range);
  int (*end)(void* range);
  template <class F>
  static F find(const char* name) {
    return reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
  }
  Functions()
      : has_callbacks(find<decltype(has_callbacks)>("_ZN2at12hasCallbacksEv")),
        begin(find<decltype(begin)>("aoti_record_function_start")),
        end(find<decltype(end)>("aoti_record_function_end")) {}
};

const Functions& torch_functions() {
  static const Functions found;
  return found;
}

int wanted(void*) { return torch_functions().has_callbacks() ? 1 : 0; }

void* begin(const char* label, const char* kernel, void*) {
  std::string name = std::string("ingot: ") + label;
  if (*kernel != '\0') name += std::string(" [") + kernel + "]";
  void* range = nullptr;
  return torch_functions().begin(name.c_str(), nullptr, nullptr, 0, &range) == 0 ? range : nullptr;
}

void end(void* range, void*) {
  if (range != nullptr) torch_functions().end(range);
}

// When the library is loaded.
const bool watched = [] {
  const Functions& f = torch_functions();
  if (f.has_callbacks == nullptr || f.begin == nullptr || f.end == nullptr) return false;
  const ingot_step_watch watch{wanted, begin, end, nullptr};
  return ingot_set_step_watch(&watch) == INGOT_OK;
}();

}  // namespace
