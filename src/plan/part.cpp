// Extracts one function of a plan as a plan of its own.
#include <algorithm>

#include "base/error.h"
#include "plan/plan.h"

namespace ingot::plan {

namespace {

constexpr uint32_t unused = UINT32_MAX;

// New indices of the kept entries, in the old order.
std::vector<uint32_t> numbered(const std::vector<bool>& stays) {
  std::vector<uint32_t> number(stays.size(), unused);
  uint32_t next = 0;
  for (size_t i = 0; i < stays.size(); ++i) {
    if (stays[i]) number[i] = next++;
  }
  return number;
}

template <class T>
std::vector<T> kept(const std::vector<T>& all, const std::vector<bool>& stays) {
  std::vector<T> out;
  for (size_t i = 0; i < all.size(); ++i) {
    if (stays[i]) out.push_back(all[i]);
  }
  return out;
}

// The steps of prepare that compute the given derived tensors; marks the weights that they read.
std::vector<bool> needed_steps(const Program& prepare, const std::vector<bool>& derived, std::vector<bool>& weights) {
  std::vector<bool> wanted(prepare.buffers.size());
  for (size_t b = 0; b < wanted.size(); ++b) {
    const Buffer& buffer = prepare.buffers[b];
    wanted[b] = buffer.kind == Buffer::Kind::derived && derived[buffer.index];
  }
  std::vector<bool> steps(prepare.steps.size());
  for (size_t n = steps.size(); n-- > 0;) {
    const Step& step = prepare.steps[n];
    size_t reads = step.operands.size() - step.writes;
    steps[n] = std::any_of(step.operands.begin() + static_cast<ptrdiff_t>(reads), step.operands.end(), [&](const OperandView& o) { return wanted[o.buffer]; });
    if (!steps[n]) continue;
    for (const OperandView& o : step.operands) {
      wanted[o.buffer] = true;  // a step may write a part of a buffer: other writers of it are needed too
      if (const Buffer& b = prepare.buffers[o.buffer]; b.kind == Buffer::Kind::weight) weights[b.index] = true;
    }
  }
  return steps;
}

// Removes steps, and buffers that no remaining step uses, and renumbers.
void shrink(Program& f, const std::vector<bool>& steps) {
  std::vector<uint32_t> step_number = numbered(steps);
  std::vector<bool> used(f.buffers.size());
  for (size_t b = 0; b < f.buffers.size(); ++b) {
    Buffer& buffer = f.buffers[b];
    bool arena = buffer.kind == Buffer::Kind::arena;
    uint32_t first = unused, last = 0;
    for (size_t n = 0; n < f.steps.size(); ++n) {
      if (!steps[n] || std::none_of(f.steps[n].operands.begin(), f.steps[n].operands.end(), [&](const OperandView& o) { return o.buffer == b; })) continue;
      first = std::min(first, step_number[n]);
      last = step_number[n];
    }
    used[b] = first != unused;
    if (used[b] && arena) buffer.first = first, buffer.last = last;
  }
  std::vector<uint32_t> buffer_number = numbered(used);
  f.buffers = kept(f.buffers, used);
  f.steps = kept(f.steps, steps);
  for (Step& s : f.steps) {
    for (OperandView& o : s.operands) o.buffer = buffer_number[o.buffer];
  }
}

void renumber(Program& p, const std::vector<uint32_t>& weights, const std::vector<uint32_t>& derived) {
  for (Buffer& b : p.buffers) {
    if (b.kind == Buffer::Kind::weight) b.index = weights[b.index];
    if (b.kind == Buffer::Kind::derived) b.index = derived[b.index];
  }
}

}  // namespace

std::vector<bool> only_first_values(const Plan& plan) {
  std::vector<bool> out(plan.weights.size());
  for (const Function& f : plan.functions) {
    for (const Binding& b : f.bindings) {
      if (b.kind == Binding::Kind::state) out[b.weight] = true;
    }
  }
  auto read = [&](const Function& f) {
    for (const Program& p : f.programs) {
      for (const Buffer& b : p.buffers) {
        if (b.kind == Buffer::Kind::weight) out[b.index] = false;
      }
    }
  };
  for (const Function& f : plan.functions) read(f);
  for (const ForTarget& t : plan.targets) read(t.prepare);
  return out;
}

namespace {

// The function and all functions that its regions call, in order.
std::vector<bool> with_callees(const Plan& plan, size_t function) {
  std::vector<bool> stays(plan.functions.size());
  stays[function] = true;
  for (size_t f = function; f < stays.size(); ++f) {
    if (!stays[f]) continue;
    for (const Region& r : plan.functions[f].regions) {
      for (const Call& c : r.calls) stays[c.function] = true;
    }
  }
  return stays;
}

}  // namespace

Plan part(const Plan& whole, size_t function) {
  if (function >= whole.functions.size()) fail(Code::invalid_input, "there is no function {}: the plan has {}, counted from 0", function, whole.functions.size());
  Plan out;
  const std::vector<bool> functions = with_callees(whole, function);
  const std::vector<uint32_t> function_number = numbered(functions);
  out.functions = kept(whole.functions, functions);
  out.targets = whole.targets;
  out.origins = whole.origins;
  out.signature = whole.signature;
  out.provenance = whole.provenance;
  out.file = whole.file;
  out.code_from = whole.code_from;
  std::vector<bool> weights(whole.weights.size());
  std::vector<std::vector<bool>> derived;
  for (Function& f : out.functions) {
    for (const Binding& b : f.bindings) {
      if (b.kind == Binding::Kind::state) weights[b.weight] = true;
    }
    for (Region& r : f.regions) {
      for (Call& c : r.calls) c.function = function_number[c.function];
    }
  }
  for (size_t t = 0; t < out.targets.size(); ++t) {
    Program& prepare = out.targets[t].prepare.programs[0];
    std::vector<bool>& made = derived.emplace_back(whole.targets[t].derived.size());
    for (const Function& f : out.functions) {
      for (const Buffer& b : f.programs[t].buffers) {
        if (b.kind == Buffer::Kind::weight) weights[b.index] = true;
        if (b.kind == Buffer::Kind::derived) made[b.index] = true;
      }
    }
    shrink(prepare, needed_steps(prepare, made, weights));
    // A kept step may also write derived tensors that only other functions read.
    for (const Buffer& b : prepare.buffers) {
      if (b.kind == Buffer::Kind::derived) made[b.index] = true;
    }
  }
  out.weights = kept(whole.weights, weights);
  std::vector<uint32_t> weight_number = numbered(weights);
  for (Function& f : out.functions) {
    for (Binding& b : f.bindings) {
      if (b.kind == Binding::Kind::state) b.weight = weight_number[b.weight];
    }
  }
  for (size_t t = 0; t < out.targets.size(); ++t) {
    out.targets[t].derived = kept(whole.targets[t].derived, derived[t]);
    std::vector<uint32_t> derived_number = numbered(derived[t]);
    for (Function& f : out.functions) renumber(f.programs[t], weight_number, derived_number);
    renumber(out.targets[t].prepare.programs[0], weight_number, derived_number);
  }
  return out;
}

}  // namespace ingot::plan
