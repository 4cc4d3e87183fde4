#include "base/step_watch.h"

#include <atomic>

namespace ingot {

namespace {

std::atomic<const StepWatch*> current;

}  // namespace

void set_step_watch(const StepWatch* watch) {
  current = watch != nullptr ? new StepWatch(*watch) : nullptr;  // the old one is kept: runs may be calling it
}

const StepWatch* wanted_step_watch() {
  const StepWatch* watch = current.load(std::memory_order_acquire);
  return watch != nullptr && watch->wanted(watch->user) != 0 ? watch : nullptr;
}

}  // namespace ingot
