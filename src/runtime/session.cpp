#include "runtime/session.h"

#include <algorithm>
#include <cstring>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/text.h"
#include "plan/describe.h"

namespace ingot::runtime {

namespace {

// torch's threads where torch is, so that two pools do not fight for the cores.
std::unique_ptr<Workers> make_workers(int threads) {
  if (auto shared = find_gomp_workers(threads)) return shared;
  return make_pool(threads);
}

bool row_major(const HostTensor& t) {
  if (t.strides == nullptr) return true;
  if (std::find(t.dims, t.dims + t.rank, 0) != t.dims + t.rank) return true;  // whatever the strides of an empty tensor say
  int64_t expected = 1;
  for (int d = t.rank - 1; d >= 0; --d) {
    if (t.dims[d] != 1 && t.strides[d] != expected) return false;
    expected *= t.dims[d];
  }
  return true;
}

// Between a strided tensor and row-major memory: `out` of the tensor, or into it. Runs of neighbours are copied at once.
void copy_strided(const HostTensor& t, std::byte* plain, bool out) {
  auto size = static_cast<int64_t>(ir::size_of(t.dtype));
  int64_t run = 1;
  int outer = t.rank;
  while (outer > 0 && (t.dims[outer - 1] == 1 || t.strides == nullptr || t.strides[outer - 1] == run)) run *= t.dims[--outer];
  int64_t count = 1;
  for (int d = 0; d < outer; ++d) count *= t.dims[d];
  auto* data = static_cast<std::byte*>(t.data);
  int64_t index[32] = {};
  for (int64_t n = 0; n < count && run > 0; ++n) {
    int64_t offset = 0;
    for (int d = 0; d < outer; ++d) offset += index[d] * t.strides[d];
    std::byte *here = data + offset * size, *there = plain + n * run * size;
    std::memcpy(out ? there : here, out ? here : there, static_cast<size_t>(run * size));
    for (int d = outer - 1; d >= 0 && ++index[d] == t.dims[d]; --d) index[d] = 0;
  }
}

// "2 inputs (x, y)"
std::string list_text(const char* what, std::span<const plan::Binding> bindings) {
  std::string s = fmt::format("{} {}{} (", bindings.size(), what, bindings.size() == 1 ? "" : "s");
  for (const plan::Binding& b : bindings) s += (&b == bindings.data() ? "" : ", ") + b.name;
  return s + ")";
}

std::string given_text(size_t n) { return fmt::format("{} {}", n, n == 1 ? "is" : "are"); }

bool missing_data(const HostTensor& t) { return t.data == nullptr && std::find(t.dims, t.dims + t.rank, 0) == t.dims + t.rank; }

std::string shape_text(const HostTensor& t) {
  std::string s = "[";
  for (int d = 0; d < t.rank; ++d) s += (d ? ", " : "") + std::to_string(t.dims[d]);
  return s + "]";
}

}  // namespace

Weights::Weights(std::shared_ptr<const plan::Plan> plan, int threads, Allocator& allocator) : plan_(std::move(plan)), allocator_(allocator) {
  prepare_ = load_function(plan_->prepare);
  for (const plan::Function& f : plan_->functions) functions_.push_back(load_function(f));
  sources_.resize(plan_->weights.size(), nullptr);
  copies_.resize(plan_->weights.size());
  optional_ = plan::only_first_values(*plan_);
  // Values that the host gives come with set(), and prepare runs in commit().
  bool complete = std::none_of(plan_->weights.begin(), plan_->weights.end(), [](const plan::Weight& w) { return w.source == plan::Weight::Source::host && w.bytes > 0; });
  if (complete) set_ = make(threads);
}

std::shared_ptr<Weights::Set> Weights::make(int threads) const {
  auto set = std::make_shared<Set>();
  set->copies = copies_;
  for (size_t i = 0; i < plan_->weights.size(); ++i) {
    const plan::Weight& w = plan_->weights[i];
    const std::byte* data = sources_[i] != nullptr ? sources_[i] : w.data;
    if (data == nullptr && w.bytes > 0 && !optional_[i]) {
      Error problem(Code::invalid_input, fmt::format("weight \"{}\" has no data: the plan was saved without it", w.name));
      throw problem.fix("give it with ingot_weights_set before committing");
    }
    set->memory.weights.push_back(data);
    set->memory.weight_bytes.push_back(w.bytes);
  }
  // One block for all, so that huge pages back the small ones too.
  auto padded = [](size_t bytes) { return (bytes + 127) / 64 * 64; };
  size_t total = 0;
  for (const plan::Derived& d : plan_->derived) total += padded(d.bytes);
  set->owned = MemoryBlock(total, allocator_);
  size_t offset = 0;
  for (const plan::Derived& d : plan_->derived) {
    set->memory.derived.push_back(set->owned.data() + offset);
    set->memory.derived_bytes.push_back(d.bytes);
    offset += padded(d.bytes);
  }
  if (!prepare_.steps.empty()) {
    std::unique_ptr<Workers> workers = make_workers(threads);
    auto resolved = runtime::resolve(prepare_, *plan_, set->memory, {}, *workers);
    MemoryBlock arena(resolved->arena_bytes, allocator_), scratch(resolved->scratch_bytes + 64, allocator_);
    runtime::run(prepare_, *resolved, {}, arena.data(), scratch.data(), *workers);
    // Pages of the file whose weights are only there to be packed are not needed any more; they come back when asked for.
    if (plan_->file) {
      std::vector<bool> used(plan_->weights.size(), false);
      for (const plan::Function& f : plan_->functions) {
        for (const plan::Buffer& b : f.buffers) {
          if (b.kind == plan::Buffer::Kind::weight) used[b.index] = true;
        }
      }
      for (size_t i = 0; i < used.size(); ++i) {
        if (!used[i] && plan_->weights[i].data != nullptr) plan_->file->drop({plan_->weights[i].data, plan_->weights[i].bytes});
      }
    }
  }
  return set;
}

std::shared_ptr<const Weights::Set> Weights::current() const {
  std::lock_guard lock(mutex_);
  return set_;
}

void Weights::set(std::string_view name, const void* data, size_t bytes, bool copy) {
  bool found = false;
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < plan_->weights.size(); ++i) {
    const plan::Weight& w = plan_->weights[i];
    if (w.name != name && w.tied_to != name) continue;
    found = true;
    if (w.bytes != bytes) fail(Code::invalid_input, "weight \"{}\" has {} bytes, but {} are given", name, w.bytes, bytes);
    std::shared_ptr<const MemoryBlock> copied;
    if (copy && bytes > 0) {
      copied = std::make_shared<const MemoryBlock>(bytes, allocator_);
      std::memcpy(copied->data(), data, bytes);
    }
    sources_[i] = copied ? copied->data() : static_cast<const std::byte*>(data);
    copies_[i] = std::move(copied);
  }
  if (!found) fail(Code::invalid_input, "the plan has no weight \"{}\"", name);
}

void Weights::commit(int threads) {
  std::lock_guard lock(mutex_);
  std::shared_ptr<Set> next = make(threads);
  next->version = ++version_;
  set_ = std::move(next);
}

Session::Session(std::shared_ptr<Weights> weights, size_t function, int threads, Allocator& allocator)
    : weights_(std::move(weights)), set_(weights_->current()), loaded_(weights_->function(function)), allocator_(allocator), workers_(make_workers(threads)) {
  pointers_.resize(loaded_.function->bindings.size());
  gathered_.resize(loaded_.function->bindings.size());
  states_.resize(loaded_.states);
  output_dims_.resize(loaded_.outputs);
  wanted_.resize(loaded_.symbols.size());
}

void Session::refuse_size(size_t input, size_t axis, const HostTensor& given, int64_t needed) const {
  const plan::Function& f = *loaded_.function;
  plan::SizeRef size = f.bindings[input].dims[axis];
  bool fixed = f.sizes.code[size].op == SizeInstruction::Op::constant;
  std::string what = fmt::format("axis {} of input \"{}\" (shape {}) has size {}", axis, f.bindings[input].name, shape_text(given), given.dims[axis]);
  throw Error(Code::invalid_input, fixed ? fmt::format("{}, but the plan was built for {} there", what, needed)
                                         : fmt::format("{}, but the sizes of the other inputs make it {} = {}", what, plan::size_text(f, size), needed))
      .fix(fixed ? "give this size, or compile with a range for this axis" : "give inputs whose sizes agree");
}

Resolved& Session::find(std::span<const HostTensor> inputs) {
  const plan::Function& f = *loaded_.function;
  if (inputs.size() != loaded_.inputs)
    fail(Code::invalid_input, "the plan takes {}, but {} given", list_text("input", std::span(f.bindings).first(loaded_.inputs)), given_text(inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const plan::Binding& b = f.bindings[i];
    if (inputs[i].dtype != b.dtype) {
      Error problem(Code::invalid_input, fmt::format("input \"{}\" is {}, but the plan was built for {}", b.name, ir::torch_name_of(inputs[i].dtype), ir::torch_name_of(b.dtype)));
      throw problem.fix(fmt::format("convert it to {}", ir::torch_name_of(b.dtype)));
    }
    if (inputs[i].rank != static_cast<int>(b.dims.size())) {
      std::string dims;
      for (plan::SizeRef d : b.dims) dims += (dims.empty() ? "" : ", ") + plan::size_text(f, d);
      fail(Code::invalid_input, "input \"{}\" has rank {} (shape {}), but the plan was built for rank {}: [{}]", b.name, inputs[i].rank, shape_text(inputs[i]), b.dims.size(),
           dims);
    }
  }
  for (size_t s = 0; s < loaded_.symbols.size(); ++s) {
    const LoadedFunction::Source& source = loaded_.symbols[s];
    wanted_[s] = source.binding == UINT32_MAX ? f.symbols[s].opt : inputs[source.binding].dims[source.axis];
  }
  // New weights: everything that points at the old ones is resolved anew.
  auto now = weights_->current();
  if (now == nullptr) {
    Error problem(Code::invalid_input, "the plan was saved without the values of its weights, and they have not been given");
    throw problem.fix("give each with ingot_weights_set, then call ingot_weights_commit");
  }
  if (now != set_) {
    cache_.clear();
    set_ = std::move(now);
  }
  for (auto entry = cache_.begin(); entry != cache_.end(); ++entry) {
    if (entry->symbols != wanted_) continue;
    if (entry != cache_.begin()) cache_.splice(cache_.begin(), cache_, entry);
    break;
  }
  if (cache_.empty() || cache_.front().symbols != wanted_) {
    for (size_t s = 0; s < wanted_.size(); ++s) {
      const plan::Symbol& symbol = f.symbols[s];
      if (wanted_[s] >= symbol.min && wanted_[s] <= symbol.max) continue;
      const LoadedFunction::Source& source = loaded_.symbols[s];
      Error problem(Code::invalid_input, fmt::format("axis {} of input \"{}\" has size {}, outside the range {}..{} the plan was built for", source.axis,
                                                     source.binding == UINT32_MAX ? "?" : f.bindings[source.binding].name, wanted_[s], symbol.min, symbol.max));
      throw problem.fix("compile with a wider range for this axis");
    }
    auto resolved = runtime::resolve(loaded_, weights_->plan(), set_->memory, wanted_, *workers_);
    // Memory first: a failure leaves the session as it was.
    if (resolved->arena_bytes > arena_.size()) arena_ = MemoryBlock(resolved->arena_bytes, allocator_);
    if (resolved->scratch_bytes + 64 > scratch_.size()) scratch_ = MemoryBlock(resolved->scratch_bytes + 64, allocator_);
    cache_.push_front({wanted_, std::move(resolved)});
    if (cache_.size() > cache_limit) cache_.pop_back();
  }
  Resolved& r = *cache_.front().resolved;
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (int d = 0; d < inputs[i].rank; ++d) {
      if (inputs[i].dims[d] != r.binding_dims[i][static_cast<size_t>(d)]) {
        refuse_size(i, static_cast<size_t>(d), inputs[i], r.binding_dims[i][static_cast<size_t>(d)]);
      }
    }
  }
  return r;
}

const std::vector<std::vector<int64_t>>& Session::resolve(std::span<const HostTensor> inputs) {
  Resolved& r = find(inputs);
  for (size_t o = 0; o < loaded_.outputs; ++o) output_dims_[o] = r.binding_dims[loaded_.inputs + o];
  return output_dims_;
}

void Session::run(std::span<const HostTensor> inputs, std::span<const HostTensor> outputs) {
  Resolved& r = find(inputs);
  if (outputs.size() != loaded_.outputs)
    fail(Code::invalid_input, "the plan gives {}, but room for {} given", list_text("output", std::span(loaded_.function->bindings).subspan(loaded_.inputs, loaded_.outputs)),
         given_text(outputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (missing_data(inputs[i])) fail(Code::invalid_input, "input \"{}\" has no data: its pointer is NULL", loaded_.function->bindings[i].name);
    pointers_[i] = row_major_of(i, inputs[i]);
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    const plan::Binding& b = loaded_.function->bindings[inputs.size() + o];
    const std::vector<int64_t>& dims = r.binding_dims[inputs.size() + o];
    bool fits = outputs[o].dtype == b.dtype && outputs[o].rank == static_cast<int>(dims.size()) && row_major(outputs[o]) && std::equal(dims.begin(), dims.end(), outputs[o].dims);
    if (!fits)
      fail(Code::invalid_input, "the tensor given for output \"{}\" ({} {}) does not have the dtype, shape and row-major strides of the result", b.name,
           ir::torch_name_of(outputs[o].dtype), shape_text(outputs[o]));
    if (missing_data(outputs[o])) fail(Code::invalid_input, "output \"{}\" has no memory: its pointer is NULL", b.name);
    pointers_[inputs.size() + o] = static_cast<std::byte*>(outputs[o].data);
  }
  size_t first_state = inputs.size() + outputs.size();
  for (size_t i = 0; i < states_.size(); ++i) {
    pointers_[first_state + i] = states_[i].bound.data != nullptr ? row_major_of(first_state + i, states_[i].bound) : own_state(i);
  }
  if (loaded_.writes) check_overlap(inputs, outputs);
  if (profiling_) nanoseconds_.resize(r.steps.size());
  runtime::run(loaded_, r, pointers_, arena_.data(), scratch_.data(), *workers_, profiling_ ? nanoseconds_.data() : nullptr);
  if (!loaded_.writes) return;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (loaded_.function->bindings[i].written) scatter(i, inputs[i]);
  }
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].bound.data != nullptr) scatter(first_state + i, states_[i].bound);
  }
}

// Where the binding's elements lie row-major: the tensor itself, or a copy.
std::byte* Session::row_major_of(size_t binding, const HostTensor& t) {
  if (row_major(t)) return static_cast<std::byte*>(t.data);
  size_t bytes = ir::size_of(t.dtype);
  for (int d = 0; d < t.rank; ++d) bytes *= static_cast<size_t>(t.dims[d]);
  if (gathered_[binding].size() < bytes) gathered_[binding] = MemoryBlock(bytes, allocator_);
  copy_strided(t, gathered_[binding].data(), true);
  return gathered_[binding].data();
}

// What was written to the copy goes to the tensor.
void Session::scatter(size_t binding, const HostTensor& t) {
  if (!row_major(t)) copy_strided(t, gathered_[binding].data(), false);
}

const plan::Binding& Session::state_binding(size_t index) const {
  if (index >= loaded_.states) fail(Code::invalid_input, "there is no state {}: the function has {}, counted from 0", index, loaded_.states);
  return loaded_.function->bindings[loaded_.inputs + loaded_.outputs + index];
}

std::byte* Session::own_state(size_t index) {
  const plan::Binding& b = state_binding(index);
  MemoryBlock& own = states_[index].own;
  size_t bytes = set_->memory.weight_bytes[b.weight];
  if (own.data() == nullptr) {
    if (set_->memory.weights[b.weight] == nullptr && bytes > 0) {
      Error problem(Code::invalid_input, fmt::format("state \"{}\" has no first value: the plan was saved without it", b.name));
      throw problem.fix("give it with ingot_weights_set before committing, or bind memory with ingot_session_bind_state");
    }
    own = MemoryBlock(std::max<size_t>(bytes, 1), allocator_);
    std::memcpy(own.data(), set_->memory.weights[b.weight], bytes);
  }
  return own.data();
}

void Session::bind_state(size_t index, const HostTensor& t) {
  const plan::Binding& b = state_binding(index);
  State& s = states_[index];
  if (t.data == nullptr) {
    s.bound = {};
    return;
  }
  const std::vector<int64_t>& dims = weights_->plan().weights[b.weight].dims;
  bool fits = t.dtype == b.dtype && t.rank == static_cast<int>(dims.size()) && std::equal(dims.begin(), dims.end(), t.dims);
  if (!fits) fail(Code::invalid_input, "the memory given for state \"{}\" ({} {}) does not have its dtype and shape", b.name, ir::torch_name_of(t.dtype), shape_text(t));
  s.dims.assign(t.dims, t.dims + t.rank);
  s.bound = t;
  s.bound.dims = s.dims.data();
  if (t.strides != nullptr) {
    s.strides.assign(t.strides, t.strides + t.rank);
    s.bound.strides = s.strides.data();
  }
}

void Session::copy_state(size_t index, void* data, size_t bytes, bool out) {
  const plan::Binding& b = state_binding(index);
  State& s = states_[index];
  size_t have = set_->memory.weight_bytes[b.weight];
  if (bytes != have) fail(Code::invalid_input, "state \"{}\" has {} bytes, but {} are given", b.name, have, bytes);
  if (s.bound.data == nullptr) {
    std::byte* own = own_state(index);
    std::memcpy(out ? data : own, out ? own : data, bytes);
  } else {
    copy_strided(s.bound, static_cast<std::byte*>(data), out);
  }
}

void Session::reset() {
  for (State& s : states_) s.own = MemoryBlock();
}

// Memory that a run writes must not be read or written through another binding.
void Session::check_overlap(std::span<const HostTensor> inputs, std::span<const HostTensor> outputs) const {
  const plan::Function& f = *loaded_.function;
  struct Span {
    const std::byte *begin, *end;
  };
  auto span_of = [&](size_t b) -> Span {
    const HostTensor* t = b < inputs.size() ? &inputs[b] : b < inputs.size() + outputs.size() ? &outputs[b - inputs.size()] : &states_[b - inputs.size() - outputs.size()].bound;
    if (t->data == nullptr) return {};
    auto element = static_cast<int64_t>(ir::size_of(t->dtype));
    int64_t low = 0, high = 0, row = 1;
    for (int d = t->rank; d-- > 0;) {
      if (t->dims[d] == 0) return {};
      int64_t reach = (t->dims[d] - 1) * (t->strides != nullptr ? t->strides[d] : row);
      (reach < 0 ? low : high) += reach;
      row *= t->dims[d];
    }
    const auto* data = static_cast<const std::byte*>(t->data);
    return {data + low * element, data + (high + 1) * element};
  };
  for (size_t w = 0; w < f.bindings.size(); ++w) {
    if (!f.bindings[w].written && f.bindings[w].kind != plan::Binding::Kind::state) continue;
    Span a = span_of(w);
    for (size_t o = 0; o < f.bindings.size() && a.begin != nullptr; ++o) {
      Span b = span_of(o);
      if (o == w || b.begin == nullptr || a.begin >= b.end || b.begin >= a.end) continue;
      throw Error(Code::invalid_input, fmt::format("\"{}\" and \"{}\" share memory, and the model writes to \"{}\"", f.bindings[w].name, f.bindings[o].name, f.bindings[w].name))
          .fix("give memory of its own to each");
    }
  }
}

std::string Session::profile() const {
  std::string s = "{\"steps\": [";
  for (size_t n = 0; n < nanoseconds_.size() && !cache_.empty(); ++n) {
    const plan::Step& step = loaded_.function->steps[n];
    const Resolved::Step& at = cache_.front().resolved->steps[n];
    // Bytes of every operand once, broadcast axes not counted.
    int64_t bytes = 0;
    for (const backend::TensorRef& t : at.operands) {
      auto size = static_cast<int64_t>(ir::size_of(t.dtype));
      for (int d = 0; d < t.rank; ++d) size *= t.strides[d] == 0 ? 1 : t.dims[d];
      bytes += size;
    }
    if (n > 0) s += ", ";
    s += "{\"label\": ";
    append_json_string(s, step.label);
    s += ", \"kernel\": ";
    append_json_string(s, step.kernel);
    s += fmt::format(", \"nanoseconds\": {}, \"bytes\": {}, \"sizes\": [{}]}}", nanoseconds_[n], bytes, fmt::join(at.sizes, ", "));
  }
  return s + "]}";
}

}  // namespace ingot::runtime
