// Memory that the model writes: updates in place where nobody still reads what was there, else copies at the end; outputs that are copies.
#include "compile/function.h"

#include <algorithm>

#include "compile/writer.h"

namespace ingot::compile {

using namespace ir;

bool FunctionCompiler::same_memory(const Place& a, const Place& b) const {
  const plan::Buffer &x = out_.buffers[a.buffer], &y = out_.buffers[b.buffer];
  bool buffer = a.buffer == b.buffer || (x.kind == y.kind && x.kind != plan::Buffer::Kind::arena && x.index == y.index);
  return buffer && a.window.dims == b.window.dims && a.window.offset == b.window.offset && a.window.strides == b.window.strides;
}

// State that is written in place while somebody still reads what was there: it is copied instead. True when there is such a one.
bool FunctionCompiler::find_conflicts() {
  bool found = false;
  plan::SizeRef one = sizes_.ref(Dim(1));
  auto same_elements = [&](const plan::OperandView& a, const plan::OperandView& b) {
    bool same = a.offset == b.offset && a.dims == b.dims;
    for (size_t d = 0; same && d < a.dims.size(); ++d) same = a.dims[d] == one || a.strides[d] == b.strides[d];
    return same;
  };
  for (const auto& [i, versions] : in_place_) {
    for (size_t n = 0; n < versions.size(); ++n) {
      // Once version n is begun, nobody may read an older one.
      std::vector<plan::BufferId> older(versions.begin() + static_cast<int64_t>(n) + 1, versions.end());
      older.push_back(layout_.places[g_.written_by(g_.outputs[i])].buffer);
      bool begun = false;
      for (const plan::Step& s : out_.steps) {
        size_t reads = s.operands.size() - s.writes;
        const plan::OperandView* written = nullptr;
        for (size_t k = reads; k < s.operands.size(); ++k) {
          if (s.operands[k].buffer == versions[n]) written = &s.operands[k];
        }
        for (size_t k = 0; k < reads; ++k) {
          const plan::OperandView& o = s.operands[k];
          if ((!begun && written == nullptr) || std::find(older.begin(), older.end(), o.buffer) == older.end()) continue;
          // An element may be read by the body that writes it: the read comes first.
          bool elementwise = !begun && written != nullptr && (s.kernel == "fused" || (s.kernel == "matmul" && k >= 2));
          if (elementwise && same_elements(o, *written)) continue;
          copied_.insert(i);
          found = true;
        }
        begun = begun || written != nullptr;
      }
    }
  }
  return found;
}

void FunctionCompiler::copy(ValueId v, const Place& target, std::string label) {
  WrittenBody written = write_root(*this, v, target, false);
  push(step_of(emitter_.fused(written.body, layouts_of(written.operands)), std::move(label), 1, written.operands), none_id);
}

void FunctionCompiler::copy_outputs() {
  // To the caller: inputs, weights and repeats of another output.
  uint32_t binding = static_cast<uint32_t>(g_.inputs.size());
  for (const Output& o : g_.outputs) {
    if (o.to != Output::To::caller) continue;
    const Place& made = layout_.places[o.value];
    const plan::Buffer& buffer = out_.buffers[made.buffer];
    if (buffer.kind != plan::Buffer::Kind::binding || buffer.index != binding) {
      copy(o.value, {leaf_buffer(plan::Buffer::Kind::binding, binding, 0), made.dtype, row_major(made.window.dims)}, "copy");
    }
    ++binding;
  }
  // To state. What is read from memory that another one of these writes is put aside first.
  auto written_leaf = [&](ValueId v) { return std::any_of(g_.outputs.begin(), g_.outputs.end(), [&](const Output& o) { return g_.written_by(o) == v; }); };
  for (size_t i = 0; i < g_.outputs.size(); ++i) {
    const Output& o = g_.outputs[i];
    if (o.to == Output::To::caller || in_place_.contains(i) || !written_leaf(o.value) || out_.buffers[layout_.places[o.value].buffer].kind == plan::Buffer::Kind::arena) continue;
    const Type& t = g_.type(o.value);
    Place aside{arena_buffer(product(t.dims) * Dim(static_cast<int64_t>(size_of(t.dtype)))), t.dtype, row_major(t.dims)};
    copy(o.value, aside, "put aside");
    layout_.places[o.value] = aside;
  }
  for (size_t i = 0; i < g_.outputs.size(); ++i) {
    const Output& o = g_.outputs[i];
    if (o.to == Output::To::caller || in_place_.contains(i)) continue;
    ValueId leaf = g_.written_by(o);
    for (uint32_t b = 0; b < bindings_.size(); ++b) {
      bool input = o.to == Output::To::input;
      if (bindings_[b].name != o.name || (bindings_[b].kind == plan::Binding::Kind::input) != input || (!input && bindings_[b].kind != plan::Binding::Kind::state)) continue;
      const Type& t = g_.type(leaf);
      copy(o.value, {leaf_buffer(plan::Buffer::Kind::binding, b, product(t.dims) * Dim(static_cast<int64_t>(size_of(t.dtype)))), t.dtype, row_major(t.dims)}, "write " + o.name);
      break;
    }
  }
}

}  // namespace ingot::compile
