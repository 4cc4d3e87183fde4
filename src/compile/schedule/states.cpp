// Memory that the model writes: updates in place if no later step reads the old value, otherwise copies at the end. Also outputs that are copies.
#include <algorithm>
#include <unordered_map>

#include "compile/schedule/scheduler.h"

namespace ingot::compile {

using namespace ir;

// Outputs written in place although a later step reads what was there; they must be copied instead.
std::set<size_t> Scheduler::conflicts() const {
  std::set<size_t> found;
  // Which version of an output's memory a buffer entry is: 0 is the newest, the last one the value before the run.
  struct Version {
    size_t output, age;
  };
  std::unordered_map<plan::BufferId, Version> versions;
  std::unordered_map<size_t, size_t> begun;  // per output: the newest version that is partly written
  for (const auto& [i, entries] : s_.in_place) {
    for (size_t n = 0; n < entries.size(); ++n) versions[entries[n]] = {i, n};
    versions[s_.places[c_.written[i]].buffer] = {i, entries.size()};
    begun[i] = entries.size();
  }
  // Once a newer version has been started, no step may read an older one.
  for (const ScheduledStep& s : out_.steps) {
    size_t reads = s.operands.size() - s.writes;
    for (size_t k = 0; k < reads; ++k) {
      const BufferView& o = s.operands[k];
      auto read = versions.find(o.buffer);
      if (read == versions.end()) continue;
      const auto [i, age] = read->second;
      bool conflict = begun[i] < age;
      for (size_t w = reads; w < s.operands.size() && !conflict; ++w) {
        auto written = versions.find(s.operands[w].buffer);
        if (written == versions.end() || written->second.output != i || written->second.age >= age) continue;
        // The body that writes an element may read it, because it reads before it writes.
        conflict = !s.may_overwrite(k) || !has_same_elements(o.layout, s.operands[w].layout);
      }
      if (!conflict) continue;
      found.insert(i);
    }
    for (size_t w = reads; w < s.operands.size(); ++w) {
      auto written = versions.find(s.operands[w].buffer);
      if (written == versions.end()) continue;
      size_t& newest = begun[written->second.output];
      newest = std::min(newest, written->second.age);
    }
  }
  return found;
}

void Scheduler::copy(const StoragePlan& s, ValueId v, const BufferView& target, std::string label) {
  auto written = write_root(s, v, target, false);
  if (!written) return need(written.missing());
  written->label = std::move(label);
  fused(std::move(*written), none_id);
  out_.steps.back().results = {{v, target, v, target}};
}

void Scheduler::copy_outputs() {
  // Copies to the caller: inputs, weights and repeated outputs.
  uint32_t binding = static_cast<uint32_t>(g_.inputs.size());
  for (const Output& o : g_.outputs) {
    if (o.to != Output::To::caller) continue;
    const BufferView& made = s_.places[o.value];
    const PlannedBuffer& buffer = out_.buffers.list[made.buffer];
    if (buffer.kind != plan::Buffer::Kind::binding || buffer.index != binding) {
      copy(s_, o.value, {out_.buffers.leaf(plan::Buffer::Kind::binding, binding, 0), made.dtype, row_major(made.layout.dims)}, "copy");
    }
    ++binding;
  }
  // Copies to state. A source that another of these copies overwrites is saved first.
  std::unordered_map<ValueId, uint32_t> bound;  // written leaves -> their bindings
  for (ValueId leaf : c_.written) {
    if (leaf != none_id) bound.emplace(leaf, out_.buffers.list[s_.places[leaf].buffer].index);
  }
  std::optional<StoragePlan> moved;  // the storage plan with the saved values in their new places
  for (size_t i = 0; i < g_.outputs.size(); ++i) {
    const Output& o = g_.outputs[i];
    const BufferView& now = (moved ? *moved : s_).places[o.value];
    if (o.to == Output::To::caller || o.value == c_.written[i] || s_.in_place.contains(i) || !bound.contains(o.value) ||
        out_.buffers.list[now.buffer].kind == plan::Buffer::Kind::arena)
      continue;
    const Type& t = g_.type(o.value);
    BufferView aside{out_.buffers.arena(bytes_of(t)), t.dtype, row_major(t.dims)};
    if (!moved) moved = s_;
    copy(s_, o.value, aside, "put aside");
    moved->places[o.value] = aside;
  }
  for (size_t i = 0; i < g_.outputs.size(); ++i) {
    const Output& o = g_.outputs[i];
    if (o.to == Output::To::caller || o.value == c_.written[i] || s_.in_place.contains(i)) continue;  // a value written to itself is already there
    const Type& t = g_.type(c_.written[i]);
    const plan::BufferId memory = out_.buffers.leaf(plan::Buffer::Kind::binding, bound.at(c_.written[i]), bytes_of(t));
    copy(moved ? *moved : s_, o.value, {memory, t.dtype, row_major(t.dims)}, "write " + o.name);
  }
}

}  // namespace ingot::compile
