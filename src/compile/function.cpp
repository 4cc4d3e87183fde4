#include "compile/function.h"

#include <algorithm>

#include "base/error.h"
#include "compile/writer.h"
#include "ir/written.h"

namespace ingot::compile {

using namespace ir;

bool is_plain_view(const Graph& g, ValueId v) {
  const Node& n = g.producer(v);
  return n.op == Op::reshape || (n.op == Op::view && !n.attributes.map("map").fill);
}

std::vector<StridedLayout> layouts_of(const std::vector<BufferView>& places) {
  std::vector<StridedLayout> out;
  for (const BufferView& p : places) out.push_back(p.layout);
  return out;
}

FunctionCompiler::FunctionCompiler(const Graph& g, backend::Emitter& emitter, LeafPlaces leaves, std::vector<uint32_t> packed_operand, std::vector<uint32_t> output_derived,
                                   std::vector<bool> output_packed, const std::vector<int64_t>& derived_bytes)
    : g_(g),
      emitter_(emitter),
      leaves_(std::move(leaves)),
      packed_operand_(std::move(packed_operand)),
      output_derived_(std::move(output_derived)),
      output_packed_(std::move(output_packed)),
      derived_bytes_(derived_bytes),
      users_(g.users()),
      uses_(g.values.size(), 0),
      written_(written_by_outputs(g)) {
  for (const Node& n : g.nodes) {
    for (ValueId v : n.in) ++uses_[v];
  }
  for (const Output& o : g.outputs) ++uses_[o.value];
  for (const Node& n : g.nodes) {
    auto found = columns_apart(g, n, emitter);
    if (found && uses_[n.in[1]] == 1 && uses_[*found] == 1) unmade_.insert(*found);
  }
  match_depthwise_convs();
}

plan::Step FunctionCompiler::step_of(backend::EmittedStep emitted, std::string label, uint32_t writes, const std::vector<BufferView>& operands) {
  plan::Step step;
  step.kernel = std::move(emitted.kernel);
  for (const BufferView& p : operands) step.operands.push_back(view_of(p));
  step.sizes = sizes_.refs(emitted.sizes);
  step.constants = std::move(emitted.constants);
  step.label = std::move(label);
  step.writes = writes;
  return step;
}

void FunctionCompiler::push(plan::Step step, OriginId origin) {
  step.origin = origin;
  out_.steps.push_back(std::move(step));
}

void FunctionCompiler::liveness() {
  for (uint32_t s = 0; s < out_.steps.size(); ++s) {
    for (const plan::OperandView& o : out_.steps[s].operands) {
      plan::Buffer& b = out_.buffers[o.buffer];
      if (b.last == 0 && b.first == 0) b.first = s + 1;  // shifted by one while 0 means "not seen"
      b.last = s + 1;
    }
  }
  for (plan::Buffer& b : out_.buffers) {
    if (b.kind != plan::Buffer::Kind::arena) {
      b.first = b.last = 0;
    } else if (b.last > 0) {
      --b.first;
      --b.last;
    }
  }
}

void FunctionCompiler::run(plan::Function& function) {
  for (;;) {
    size_t before = cuts_.size() + alone_.size();
    declined_ = false;
    out_ = {};
    sizes_ = SizeTable(function.sizes);
    emitted_parts_.clear();
    decide();
    place_all();
    // After a cut the rest goes on, so that one pass finds many.
    auto attempt = [&](auto&& emit) {
      try {
        emit();
      } catch (const Cut& cut) {
        if (storage_.stored[cut.value] && alone_.insert(cut.value).second) return;
        if (storage_.stored[cut.value]) fail(Code::internal, "value {} ({}) is stored, but has no place", cut.value, name_of(g_.producer(cut.value).op));
        cuts_.insert(cut.value);
      }
    };
    for (NodeId n = 0; n < g_.nodes.size(); ++n) attempt([&] { emit_node(n); });
    if (cuts_.size() + alone_.size() != before || declined_) continue;
    if (output_derived_.empty()) attempt([&] { copy_outputs(); });
    for (size_t i = 0; i < output_packed_.size(); ++i) {
      if (output_packed_[i]) attempt([&] { emit_pack(g_.outputs[i].value, output_derived_[i]); });
    }
    if (cuts_.size() + alone_.size() != before) continue;
    if (!find_conflicts()) break;
  }
  liveness();
  if (function.programs.empty()) {
    for (const Symbol& s : g_.symbols) function.symbols.push_back({s.name, s.min, s.opt, s.max});
    for (const Check& c : g_.checks) {
      function.checks.push_back({sizes_.ref(c.left), sizes_.ref(c.right), c.kind == Check::equal, c.origin, c.why});
    }
    function.bindings = std::move(bindings_);
  }
  function.programs.push_back(std::move(out_));
  function.sizes = sizes_.take();
}

}  // namespace ingot::compile
