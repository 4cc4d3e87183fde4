// Independent steps that run side by side, as one step.
#include <algorithm>

#include "base/error.h"
#include "compile/schedule/scheduler.h"
#include "compile/schedule/tuning.h"

namespace ingot::compile {

using namespace ir;

namespace {

// The outermost concatenation that a step computes a part of; none_id if it computes none.
ValueId concat_of(const Context& c, const ScheduledStep& s) {
  if (s.results.size() != 1 || s.results[0].value == s.results[0].of || c.graph.producer(s.results[0].of).op != Op::concat) return none_id;
  ValueId out = s.results[0].of;
  for (ValueId v = out; c.uses[v] == 1 && c.users[v].size() == 1;) {
    const Node& user = c.graph.nodes[c.users[v][0]];
    if (user.op != Op::concat && user.op != Op::reshape && user.op != Op::view) break;
    v = user.out[0];
    if (user.op == Op::concat) out = v;
  }
  return out;
}

}  // namespace

// True if the backend has one step for both, if they are independent. Asked without operands: a sketch.
bool Scheduler::are_alike(const ScheduledStep& x, const ScheduledStep& y) const {
  if (x.emitted.kernel != y.emitted.kernel || !x.rivals.empty() || !y.rivals.empty()) return false;
  return c_.backend.has_offer({backend::Concurrent{{{&x.emitted, x.writes, {}}, {&y.emitted, y.writes, {}}}}});
}

// True if neither step reads or overwrites what the other one writes.
bool Scheduler::are_independent(const ScheduledStep& x, const ScheduledStep& y) const {
  auto memory = [&](const BufferView& p) {
    const PlannedBuffer& b = out_.buffers.list[p.buffer];
    return std::pair(b.kind, b.kind == plan::Buffer::Kind::arena ? p.buffer : b.index);
  };
  auto is_written = [](const ScheduledStep& s, size_t operand) { return operand + s.writes >= s.operands.size(); };
  // Parts of a concatenation are different elements of the same memory.
  const ValueId whole = concat_of(c_, x);
  const bool parts = whole != none_id && whole == concat_of(c_, y);
  for (size_t i = 0; i < x.operands.size(); ++i) {
    for (size_t j = 0; j < y.operands.size(); ++j) {
      const bool both = is_written(x, i) && is_written(y, j), one = is_written(x, i) || is_written(y, j);
      if (one && !(both && parts) && memory(x.operands[i]) == memory(y.operands[j])) return false;
    }
  }
  return true;
}

// Moves steps that are alike and do not depend on each other next to one another: layers of two branches, whose steps follow each other branch by branch. What the moved
// steps need comes in front of them.
void Scheduler::gather_alike() {
  std::vector<ScheduledStep>& steps = out_.steps;
  for (size_t first = 0, end; first < steps.size(); first = end) {
    end = first + 1;  // of the steps that are together
    for (size_t j = end; j < std::min(steps.size(), first + schedule_tuning::looked_at_steps) && steps[j].emitted.kernel != "external"; ++j) {
      if (!are_alike(steps[first], steps[j])) continue;
      std::vector<bool> needed(j + 1 - first);  // by place after the first
      needed[j - first] = true;
      for (size_t k = j; k-- > first;) {
        for (size_t n = k + 1; n <= j && !needed[k - first]; ++n) needed[k - first] = needed[n - first] && !are_independent(steps[k], steps[n]);
      }
      const auto those = needed.begin() + static_cast<int64_t>(end - first);
      const auto count = static_cast<size_t>(std::count(those, needed.end() - 1, true));
      if (std::find(needed.begin(), those, true) != those || count > schedule_tuning::max_moved_steps) continue;
      // What is needed, the steps that are together, this one, the others.
      auto part_of = [&](size_t k) { return k < end ? 1 : k == j ? 2 : needed[k - first] ? 0 : 3; };
      std::vector<ScheduledStep> in_order;
      for (int part = 0; part < 4; ++part) {
        for (size_t k = first; k <= j; ++k) {
          if (part_of(k) == part) in_order.push_back(std::move(steps[k]));
        }
      }
      std::move(in_order.begin(), in_order.end(), steps.begin() + static_cast<int64_t>(first));
      first += count;
      end += count + 1;
    }
  }
}

// Neighbouring steps that the backend finds alike, and that do not depend on one another, become one step: phases of a transposed convolution, branches of a block.
// Each alone seldom fills a GPU.
void Scheduler::join_steps() {
  gather_alike();
  std::vector<ScheduledStep> joined;
  for (size_t i = 0, end; i < out_.steps.size(); i = end) {
    const std::span<ScheduledStep> from = std::span(out_.steps).subspan(i);
    size_t count = 1;
    while (count < std::min(schedule_tuning::max_joined_steps, from.size()) && are_alike(from[0], from[count]) &&
           std::all_of(from.begin(), from.begin() + static_cast<int64_t>(count), [&](const ScheduledStep& s) { return are_independent(s, from[count]); }))
      ++count;
    end = i + count;
    if (count == 1) {
      joined.push_back(std::move(from[0]));
      continue;
    }
    backend::Concurrent parts;
    ScheduledStep whole{{}, {}, {}, 0, fmt::format("{} times {}", count, from[0].label), from[0].origin, from[0].considered};
    for (backend::Offer& o : whole.considered.offers) o.tunables.clear();
    for (const bool written : {false, true}) {
      for (const ScheduledStep& s : from.first(count)) {
        const size_t reads = s.operands.size() - s.writes;
        for (size_t k = written ? reads : 0; k < (written ? s.operands.size() : reads); ++k) whole.operands.push_back(s.operands[k]), whole.roles.push_back(s.roles[k]);
      }
    }
    for (ScheduledStep& s : from.first(count)) {
      parts.parts.push_back({&s.emitted, s.writes, described({s.operands, s.roles})});
      whole.writes += s.writes;
      whole.results.insert(whole.results.end(), s.results.begin(), s.results.end());
    }
    const backend::Site site{std::move(parts)};
    whole.emitted = c_.backend.offers(site).offers.at(0).emit();
    joined.push_back(std::move(whole));
  }
  out_.steps = std::move(joined);
}

}  // namespace ingot::compile
