// Memory that the model writes: updates in place where nobody still reads what was there, else copies at the end; outputs that are copies.
#include "compile/function.h"

#include <algorithm>
#include <unordered_map>

#include "compile/writer.h"

namespace ingot::compile {

using namespace ir;

bool FunctionCompiler::same_memory(const BufferView& a, const BufferView& b) const {
  const plan::Buffer &x = out_.buffers[a.buffer], &y = out_.buffers[b.buffer];
  bool buffer = a.buffer == b.buffer || (x.kind == y.kind && x.kind != plan::Buffer::Kind::arena && x.index == y.index);
  return buffer && a.layout == b.layout;
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
  // Of an output's memory, which version a buffer entry is: 0 is the newest, the last is what was there before.
  struct Version {
    size_t output, age;
  };
  std::unordered_map<plan::BufferId, Version> versions;
  std::unordered_map<size_t, size_t> begun;  // per output: the newest version that is begun
  for (const auto& [i, entries] : in_place_) {
    for (size_t n = 0; n < entries.size(); ++n) versions[entries[n]] = {i, n};
    versions[storage_.places[written_[i]].buffer] = {i, entries.size()};
    begun[i] = entries.size();
  }
  // Once a version is begun, nobody may read an older one.
  for (const plan::Step& s : out_.steps) {
    size_t reads = s.operands.size() - s.writes;
    for (size_t k = 0; k < reads; ++k) {
      const plan::OperandView& o = s.operands[k];
      auto read = versions.find(o.buffer);
      if (read == versions.end()) continue;
      const auto [i, age] = read->second;
      bool conflict = begun[i] < age;
      for (size_t w = reads; w < s.operands.size() && !conflict; ++w) {
        auto written = versions.find(s.operands[w].buffer);
        if (written == versions.end() || written->second.output != i || written->second.age >= age) continue;
        // An element may be read by the body that writes it: the read comes first.
        bool elementwise = s.kernel == "fused" || (s.kernel == "matmul" && k >= 2);
        conflict = !elementwise || !same_elements(o, s.operands[w]);
      }
      if (!conflict) continue;
      copied_.insert(i);
      found = true;
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

void FunctionCompiler::copy(ValueId v, const BufferView& target, std::string label) {
  WrittenBody written = write_root(*this, v, target, false);
  push(step_of(emitter_.fused(written.body, layouts_of(written.operands)), std::move(label), 1, written.operands), none_id);
}

void FunctionCompiler::copy_outputs() {
  // To the caller: inputs, weights and repeats of another output.
  uint32_t binding = static_cast<uint32_t>(g_.inputs.size());
  for (const Output& o : g_.outputs) {
    if (o.to != Output::To::caller) continue;
    const BufferView& made = storage_.places[o.value];
    const plan::Buffer& buffer = out_.buffers[made.buffer];
    if (buffer.kind != plan::Buffer::Kind::binding || buffer.index != binding) {
      copy(o.value, {leaf_buffer(plan::Buffer::Kind::binding, binding, 0), made.dtype, row_major(made.layout.dims)}, "copy");
    }
    ++binding;
  }
  // To state. What is read from memory that another one of these writes is put aside first.
  std::unordered_map<ValueId, uint32_t> bound;  // leaves that are written, and their bindings
  for (ValueId leaf : written_) {
    if (leaf != none_id) bound.emplace(leaf, out_.buffers[storage_.places[leaf].buffer].index);
  }
  for (size_t i = 0; i < g_.outputs.size(); ++i) {
    const Output& o = g_.outputs[i];
    if (o.to == Output::To::caller || in_place_.contains(i) || !bound.contains(o.value) || out_.buffers[storage_.places[o.value].buffer].kind == plan::Buffer::Kind::arena)
      continue;
    const Type& t = g_.type(o.value);
    BufferView aside{arena_buffer(product(t.dims) * Dim(static_cast<int64_t>(size_of(t.dtype)))), t.dtype, row_major(t.dims)};
    copy(o.value, aside, "put aside");
    storage_.places[o.value] = aside;
  }
  for (size_t i = 0; i < g_.outputs.size(); ++i) {
    const Output& o = g_.outputs[i];
    if (o.to == Output::To::caller || in_place_.contains(i)) continue;
    const Type& t = g_.type(written_[i]);
    const plan::BufferId memory = leaf_buffer(plan::Buffer::Kind::binding, bound.at(written_[i]), product(t.dims) * Dim(static_cast<int64_t>(size_of(t.dtype))));
    copy(o.value, {memory, t.dtype, row_major(t.dims)}, "write " + o.name);
  }
}

}  // namespace ingot::compile
