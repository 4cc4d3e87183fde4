// The third phase, emission: writes a schedule as a plan's program, and its sizes as a size program.
#include <algorithm>

#include "compile/function.h"
#include "compile/size_table.h"

namespace ingot::compile {

namespace {

// The life of a scratch buffer is from the first to the last step that uses it.
void set_lives(plan::Program& program) {
  std::vector<bool> seen(program.buffers.size(), false);
  for (uint32_t n = 0; n < program.steps.size(); ++n) {
    for (const plan::OperandView& o : program.steps[n].operands) {
      plan::Buffer& b = program.buffers[o.buffer];
      if (b.kind != plan::Buffer::Kind::arena) continue;
      if (!seen[o.buffer]) b.first = n;
      seen[o.buffer] = true;
      b.last = n;
    }
  }
}

}  // namespace

std::vector<backend::CodeUnit> emit(CompiledFunction compiled, plan::Function& function, std::vector<plan::TimedStep>* timed) {
  const ir::Graph& g = compiled.storage.graph();
  SizeTable sizes(std::move(function.sizes));
  if (function.programs.empty()) {
    for (const PlannedBinding& b : compiled.storage.bindings) function.bindings.push_back({b.name, b.dtype, sizes.refs(b.dims), b.order, b.kind, b.written, b.weight});
  }
  plan::Program program;
  for (const PlannedBuffer& b : compiled.schedule.buffers.list) program.buffers.push_back({b.kind, b.index, sizes.ref(b.bytes), 0, 0});
  std::vector<backend::CodeUnit> code;
  auto take = [&](plan::Step& step, backend::EmittedStep& emitted, std::vector<std::string>& alternatives) {
    step.kernel = std::move(emitted.kernel);
    step.alternatives = std::move(alternatives);
    step.sizes = sizes.refs(emitted.sizes);
    step.constants = std::move(emitted.constants);
    for (backend::CodeUnit& u : emitted.code) code.push_back(std::move(u));
  };
  for (ScheduledStep& s : compiled.schedule.steps) {
    plan::Step step;
    for (const BufferView& p : s.operands) step.operands.push_back({p.buffer, p.dtype, sizes.ref(p.layout.offset), sizes.refs(p.layout.dims), sizes.refs(p.layout.strides)});
    take(step, s.emitted, s.alternatives);
    step.origin = s.origin;
    step.label = std::move(s.label);
    step.writes = s.writes;
    const bool can_be_timed = std::any_of(s.considered.offers.begin(), s.considered.offers.end(),
                                          [&](const backend::Offer& o) { return o.implementation == s.considered.chosen && !o.tunables.empty(); });
    if (timed != nullptr && (can_be_timed || !s.problem.empty())) {
      plan::TimedStep& t = timed->emplace_back(plan::TimedStep{0, 0, program.steps.size(), {{std::string(s.considered.chosen), step}}, s.problem});
      for (Rival& r : s.rivals) take(t.ways.emplace_back(plan::TimedStep::Way{std::string(r.implementation), step}).step, r.emitted, r.alternatives);
    }
    program.steps.push_back(std::move(step));
  }
  set_lives(program);
  if (function.programs.empty()) {
    for (const ir::Symbol& s : g.symbols) function.symbols.push_back({s.name, s.min, s.opt, s.max});
    for (const ir::Check& c : g.checks) function.checks.push_back({sizes.ref(c.left), sizes.ref(c.right), c.kind == ir::Check::equal, c.origin, c.why});
  }
  function.programs.push_back(std::move(program));
  function.sizes = sizes.take();
  return code;
}

}  // namespace ingot::compile
