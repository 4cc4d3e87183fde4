// The third phase: writes the schedule as the plan's program and its sizes as a size program.
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

std::vector<backend::CodeUnit> emit(CompiledFunction compiled, plan::Function& function) {
  const ir::Graph& g = compiled.storage.graph();
  SizeTable sizes(std::move(function.sizes));
  if (function.programs.empty()) {
    for (const PlannedBinding& b : compiled.storage.bindings) function.bindings.push_back({b.name, b.dtype, sizes.refs(b.dims), b.order, b.kind, b.written, b.weight});
  }
  plan::Program program;
  for (const PlannedBuffer& b : compiled.schedule.buffers.list) program.buffers.push_back({b.kind, b.index, sizes.ref(b.bytes), 0, 0});
  std::vector<backend::CodeUnit> code;
  for (ScheduledStep& s : compiled.schedule.steps) {
    plan::Step step;
    step.kernel = std::move(s.emitted.kernel);
    for (const BufferView& p : s.operands) step.operands.push_back({p.buffer, p.dtype, sizes.ref(p.layout.offset), sizes.refs(p.layout.dims), sizes.refs(p.layout.strides)});
    step.sizes = sizes.refs(s.emitted.sizes);
    step.constants = std::move(s.emitted.constants);
    step.origin = s.origin;
    step.label = std::move(s.label);
    step.writes = s.writes;
    program.steps.push_back(std::move(step));
    for (backend::CodeUnit& u : s.emitted.code) code.push_back(std::move(u));
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
