#include "runtime/prepare.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

namespace ingot::runtime {

using plan::Buffer;

namespace {

// Per buffer of prepare. changed: its content differs from before. empty: it has no content, so all steps that write to it must run.
struct Marks {
  std::vector<bool> changed, empty;
  bool operator==(const Marks&) const = default;
};

// Several buffers may stand for one weight or derived tensor: maps each to the first of them.
std::vector<size_t> first_of_each(const plan::Program& p) {
  std::map<std::pair<Buffer::Kind, uint32_t>, size_t> seen;
  std::vector<size_t> out(p.buffers.size());
  for (size_t b = 0; b < out.size(); ++b) {
    const Buffer& buffer = p.buffers[b];
    out[b] = buffer.kind == Buffer::Kind::arena ? b : seen.try_emplace({buffer.kind, buffer.index}, b).first->second;
  }
  return out;
}

// True if the step must run; then marks what follows from that.
bool mark(const plan::Program& p, const plan::Step& s, const std::vector<size_t>& first, Marks& marks) {
  const std::span<const plan::OperandView> all = s.operands, reads = all.first(all.size() - s.writes), writes = all.last(s.writes);
  const bool changed = std::any_of(reads.begin(), reads.end(), [&](const plan::OperandView& o) { return marks.changed[first[o.buffer]]; });
  if (!changed && std::none_of(writes.begin(), writes.end(), [&](const plan::OperandView& o) { return marks.empty[first[o.buffer]]; })) return false;
  for (const plan::OperandView& o : writes) {
    marks.empty[first[o.buffer]] = true;
    if (changed) marks.changed[first[o.buffer]] = true;
  }
  for (const plan::OperandView& o : reads) {
    if (p.buffers[o.buffer].kind == Buffer::Kind::arena) marks.empty[first[o.buffer]] = true;
  }
  return true;
}

std::vector<bool> steps_of(const plan::Program& p, const std::vector<size_t>& first, Marks& marks) {
  std::vector<bool> runs(p.steps.size());
  for (Marks before; before != marks;) {
    before = marks;
    for (size_t n = 0; n < p.steps.size(); ++n) runs[n] = mark(p, p.steps[n], first, marks);
  }
  return runs;
}

}  // namespace

void find_part(const LoadedFunction& prepare, const std::vector<bool>& derived, const std::vector<bool>& changed, PreparePart& out) {
  const plan::Program& p = *prepare.program;
  Marks marks{std::vector<bool>(p.buffers.size()), std::vector<bool>(p.buffers.size())};
  for (size_t b = 0; b < p.buffers.size(); ++b) {
    marks.changed[b] = p.buffers[b].kind == Buffer::Kind::weight && changed[p.buffers[b].index];
    marks.empty[b] = p.buffers[b].kind == Buffer::Kind::derived && derived[p.buffers[b].index];
  }
  const std::vector<size_t> first = first_of_each(p);
  const std::vector<bool> runs = steps_of(p, first, marks);
  out.weights.assign(changed.size(), false);
  out.derived = derived;
  out.program.buffers = p.buffers;
  out.program.steps.clear();
  out.loaded = prepare;
  out.loaded.program = &out.program;
  out.loaded.steps.clear();
  for (size_t n = 0; n < p.steps.size(); ++n) {
    if (!runs[n]) continue;
    out.program.steps.push_back(p.steps[n]);
    out.loaded.steps.push_back(prepare.steps[n]);
    for (const plan::OperandView& o : p.steps[n].operands) {
      if (p.buffers[o.buffer].kind == Buffer::Kind::weight) out.weights[p.buffers[o.buffer].index] = true;
    }
  }
  for (size_t b = 0; b < p.buffers.size(); ++b) {
    Buffer& buffer = out.program.buffers[b];
    if (buffer.kind == Buffer::Kind::derived && marks.empty[first[b]]) out.derived[buffer.index] = true;
    if (buffer.kind == Buffer::Kind::arena && !marks.empty[b]) buffer.kind = Buffer::Kind::binding;  // no step here uses it, so it needs no memory
  }
  out.reads.assign(derived.size(), false);
  for (const plan::Step& s : out.program.steps) {
    for (size_t k = 0; k + s.writes < s.operands.size(); ++k) {
      const Buffer& b = out.program.buffers[s.operands[k].buffer];
      if (b.kind == Buffer::Kind::derived && !out.derived[b.index]) out.reads[b.index] = true;
    }
  }
}

}  // namespace ingot::runtime
