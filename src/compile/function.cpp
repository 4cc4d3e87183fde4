#include "compile/function.h"

namespace ingot::compile {

CompiledFunction compile_function(const Context& context) {
  Requirements required;
  for (;;) {
    StoragePlan storage = plan_storage(context, required);
    Schedule schedule = make_schedule(storage);
    Requirements& more = schedule.missing;
    if (more.size() == 0) return {std::move(storage), std::move(schedule)};
    required.stored.merge(more.stored);
    required.alone.merge(more.alone);
    required.not_depthwise.merge(more.not_depthwise);
    required.copied.merge(more.copied);
  }
}

}  // namespace ingot::compile
