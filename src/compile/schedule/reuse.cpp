// Results that take the memory of an operand.
#include <algorithm>
#include <numeric>

#include "compile/schedule/scheduler.h"

namespace ingot::compile {

using namespace ir;

// The result of a step takes the memory of an operand that no later step reads, such as a residual, if the step asks for it and the kernel reads each element there before it
// writes the same one.
void Scheduler::reuse_operands() {
  auto& buffers = out_.buffers.list;
  std::vector<size_t> first(buffers.size(), SIZE_MAX), last(buffers.size(), 0);
  for (size_t i = 0; i < out_.steps.size(); ++i) {
    for (const BufferView& o : out_.steps[i].operands) first[o.buffer] = std::min(first[o.buffer], i), last[o.buffer] = i;
  }
  auto is_arena = [&](plan::BufferId b) { return buffers[b].kind == plan::Buffer::Kind::arena; };
  // True if the step's result may be stored where its operand `k` is.
  auto may_reuse = [&](const ScheduledStep& s, size_t i, size_t k) {
    const BufferView &from = s.operands[k], &to = s.operands.back();
    if (!is_arena(from.buffer) || last[from.buffer] != i || !(buffers[from.buffer].bytes == buffers[to.buffer].bytes)) return false;
    for (size_t o = 0; o + 1 < s.operands.size(); ++o) {
      const BufferView& read = s.operands[o];
      if (read.buffer == from.buffer && (!s.may_overwrite(o) || read.dtype != to.dtype || !has_same_elements(read.layout, to.layout))) return false;
    }
    return true;
  };
  std::vector<plan::BufferId> now(buffers.size());
  std::iota(now.begin(), now.end(), plan::BufferId{0});
  for (size_t i = 0; i < out_.steps.size(); ++i) {
    ScheduledStep& s = out_.steps[i];
    for (BufferView& o : s.operands) o.buffer = now[o.buffer];
    const plan::BufferId result = s.operands.back().buffer;
    if (s.reuses_memory && s.writes == 1 && s.rivals.empty() && is_arena(result) && first[result] == i) {
      for (size_t k = 0; k < s.operands.size() - 1; ++k) {
        if (!s.may_overwrite(k) || !may_reuse(s, i, k)) continue;
        const plan::BufferId taken = s.operands[k].buffer;
        s.operands.back().buffer = now[result] = taken;
        last[taken] = last[result];
        buffers[result].bytes = 0;
        break;
      }
    }
    for (StepResult& r : s.results) r.place.buffer = now[r.place.buffer], r.whole.buffer = now[r.whole.buffer];
  }
}

}  // namespace ingot::compile
