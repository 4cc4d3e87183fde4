#include "base/log.h"

#include <cstdio>
#include <mutex>
#include <utility>

namespace ingot {

namespace {

std::mutex mutex;
std::pair<LogFunction, void*> given;

}  // namespace

void set_log(LogFunction function, void* user) {
  std::lock_guard lock(mutex);
  given = {function, user};
}

void say(LogLevel level, const std::string& text) {
  auto [function, user] = [] {
    std::lock_guard lock(mutex);
    return given;
  }();
  if (function != nullptr) return function(level, text.c_str(), user);
  std::fprintf(stderr, "ingot: %s\n", text.c_str());
}

}  // namespace ingot
