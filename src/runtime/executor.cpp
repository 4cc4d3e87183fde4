#include "runtime/executor.h"

#include <algorithm>

#include "runtime/streaming.h"

namespace ingot::runtime {

Resolved* Executor::find(std::span<const int64_t> symbols, const Memory& memory) {
  auto same = [&](const Entry& e) { return std::equal(e.symbols.begin(), e.symbols.end(), symbols.begin(), symbols.end()); };
  auto entry = std::find_if(kept_.begin(), kept_.end(), same);
  if (entry == kept_.end()) return nullptr;
  if (entry != kept_.begin()) kept_.splice(kept_.begin(), kept_, entry);
  Entry& found = kept_.front();
  if (found.memory != memory.number) {
    if (point_at_weights(*found.resolved, memory)) found.weights = nullptr;
    found.memory = memory.number;
  }
  return found.resolved.get();
}

Resolved& Executor::resolve(std::vector<int64_t> symbols, const Memory& memory, Workers& workers, backend::Stream& stream) {
  auto resolved = runtime::resolve(loaded_, plan_, memory, symbols, workers, &stream);
  ++resolutions_;
  kept_.push_front({std::move(symbols), std::move(resolved), memory.number, nullptr, {}});
  if (kept_.size() > kept_limit) kept_.pop_back();
  return current();
}

std::shared_ptr<const Executor::Addresses> Executor::weights_of(const Entry& entry) {
  Addresses now;
  const Resolved& r = *entry.resolved;
  for (const Resolved::WeightOperand& w : r.of_weights) {
    if (!is_streamed(r, w)) now.push_back(r.steps[w.step].operands[w.operand].data);
  }
  auto known = std::find_if(entry.recent.begin(), entry.recent.end(), [&](const Recent& m) { return *m.weights == now; });
  return known != entry.recent.end() ? known->weights : std::make_shared<const Addresses>(std::move(now));
}

void Executor::forget_copies() {
  for (Entry& e : kept_) std::erase_if(e.recent, [](const Recent& r) { return r.streaming != nullptr; });
}

void Executor::run(std::span<std::byte* const> bindings, const RunMemory& memory, Workers& workers, backend::Stream& stream, CopyStream* copy_stream, bool recording, bool marks) {
  Entry& entry = kept_.front();
  auto steps = [&] { runtime::run(loaded_, *entry.resolved, bindings, memory, workers, stream, copy_stream, marks); };
  if (!recording) return steps();
  if (entry.weights == nullptr) entry.weights = weights_of(entry);
  addresses_.assign(bindings.begin(), bindings.end());
  addresses_.insert(addresses_.end(), {memory.arena, memory.scratch, memory.ring});
  const std::shared_ptr<const Streaming>& streaming = entry.resolved->streaming;
  auto recent =
      std::find_if(entry.recent.begin(), entry.recent.end(), [&](const Recent& m) { return m.weights == entry.weights && m.streaming == streaming && m.addresses == addresses_; });
  if (recent == entry.recent.end()) {
    steps();
    if (entry.recent.size() == recent_limit) entry.recent.pop_back();
    entry.recent.push_front({entry.weights, streaming, addresses_, nullptr});
    return;
  }
  entry.recent.splice(entry.recent.begin(), entry.recent, recent);
  if (!recent->recording) recent->recording = stream.record(steps);
  stream.replay(*recent->recording);
}

}  // namespace ingot::runtime
