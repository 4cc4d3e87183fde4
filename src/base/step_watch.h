// What a program wants called around each step of a run (ingot_set_step_watch): for profilers.
#pragma once
#include <string>
#include <string_view>

namespace ingot {

struct StepWatch {  // as ingot_step_watch
  int (*wanted)(void* user);
  void* (*begin)(const char* label, const char* kernel, void* user);
  void (*end)(void* begun, void* user);
  void* user;
};

void set_step_watch(const StepWatch* watch);  // copied; null: none
// The one that wants to be called in a run that begins now; null: none. It stays valid.
const StepWatch* wanted_step_watch();

// From the constructor to the destructor a step is under way.
class Watched {
 public:
  Watched(const StepWatch* watch, const std::string& label, std::string_view kernel)
      : watch_(watch), begun_(watch != nullptr ? watch->begin(label.c_str(), std::string(kernel).c_str(), watch->user) : nullptr) {}
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  ~Watched() {
    if (watch_ != nullptr) watch_->end(begun_, watch_->user);
  }

 private:
  const StepWatch* watch_;
  void* begun_;
};

}  // namespace ingot
