#include "runtime/program.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "base/assertion.h"
#include "base/error.h"
#include "base/step_watch.h"
#include "runtime/copy_stream.h"
#include "runtime/streaming.h"

namespace ingot::runtime {

using plan::Buffer;

MemoryBlock reserve(size_t bytes, Allocator& from, std::string_view what) {
  try {
    return MemoryBlock(bytes, from);
  } catch (Error& e) {
    e.message = fmt::format("{}: {}", what, e.message);
    throw;
  }
}

LoadedFunction load_function(const plan::Plan& plan, const plan::Function& f, const plan::Program& p, const backend::Backend& backend) {
  LoadedFunction out;
  out.plan = &plan;
  out.function = &f;
  out.program = &p;
  out.backend = &backend;
  for (size_t n = 0; n < p.steps.size(); ++n) {
    const plan::Step& s = p.steps[n];
    auto load = [&](const std::string& name) {
      const backend::RunKernel* kernel = backend.find(name);
      if (kernel == nullptr) fail(Code::format, "step {} of function \"{}\" needs kernel \"{}\", which this runtime does not have", n, f.name, name);
      return LoadedFunction::Kernel{kernel, kernel->load(s.constants, s.operands.size(), s.sizes.size())};
    };
    try {
      LoadedFunction::Step& step = out.steps.emplace_back(load(s.kernel));
      for (const std::string& name : s.alternatives) step.alternatives.push_back(load(name));
    } catch (Error& e) {
      e.message = fmt::format("step {} of function \"{}\": {}", n, f.name, e.message);
      throw;
    }
  }
  out.symbols = plan::symbol_sources(f);
  for (const plan::Binding& binding : f.bindings) {
    (binding.kind == plan::Binding::Kind::input ? out.inputs : binding.kind == plan::Binding::Kind::output ? out.outputs : out.states) += 1;
    out.writes = out.writes || binding.written || binding.kind == plan::Binding::Kind::state;
  }
  return out;
}

namespace {

// More bytes than any machine has, and small enough that products with it in kernels fit 64 bits.
constexpr int64_t max_bytes = int64_t{1} << 46;

// Kernels multiply sizes without checks: the product of all, with 0 counted as 1, must be a possible size of memory.
void check_sizes(std::span<const int64_t> dims, std::string_view what) {
  int64_t n = 1;
  for (int64_t d : dims) {
    if (d < 0) fail(Code::format, "{} has a negative size", what);
    if (__builtin_mul_overflow(n, std::max<int64_t>(d, 1), &n) || n > max_bytes / 16) fail(Code::invalid_input, "{} is too large for these inputs", what);
  }
}

// Places buffers so that those with overlapping lives do not share memory: largest first, in the lowest gap that fits.
size_t place_arena(const plan::Program& f, const std::vector<int64_t>& sizes, size_t alignment, std::vector<size_t>& offsets) {
  struct Item {
    size_t buffer, bytes;
  };
  std::vector<Item> order;
  for (size_t b = 0; b < f.buffers.size(); ++b) {
    if (f.buffers[b].kind != Buffer::Kind::arena) continue;
    auto bytes = static_cast<size_t>(std::clamp<int64_t>(sizes[f.buffers[b].bytes], 0, max_bytes));
    order.push_back({b, padded_bytes(bytes, alignment)});
  }
  std::stable_sort(order.begin(), order.end(), [](const Item& x, const Item& y) { return x.bytes > y.bytes; });
  offsets.assign(f.buffers.size(), 0);
  std::vector<Item> placed;
  size_t total = 0;
  for (const Item& item : order) {
    const Buffer& b = f.buffers[item.buffer];
    std::vector<std::pair<size_t, size_t>> taken;
    for (const Item& p : placed) {
      const Buffer& o = f.buffers[p.buffer];
      if (o.first <= b.last && b.first <= o.last) taken.push_back({offsets[p.buffer], offsets[p.buffer] + p.bytes});
    }
    std::sort(taken.begin(), taken.end());
    size_t at = 0;
    for (const auto& [begin, end] : taken) {
      if (at + item.bytes <= begin) break;
      at = std::max(at, end);
    }
    offsets[item.buffer] = at;
    total = std::max(total, at + item.bytes);
    if (total > static_cast<size_t>(max_bytes)) fail(Code::invalid_input, "the memory between the steps is too large for these inputs");
    placed.push_back(item);
  }
  return total;
}

// Checks that the first and the last element of the operand are inside its buffer. An operand without elements may have any offset and strides; strides that
// kernels could not calculate with become 0. If all its empty axes have stride 0, its one element can still be accessed (a reduction over an empty row stores
// a result). Otherwise the offset becomes 0 and empty axes get stride 1.
void check_bounds(std::span<const int64_t> dims, std::span<int64_t> strides, int64_t& offset, ir::DType dtype, int64_t bytes, const std::string& step) {
  check_sizes(dims, step);
  bool empty = std::find(dims.begin(), dims.end(), 0) != dims.end(), repeated = empty;
  __int128 low = offset, high = offset;
  for (size_t d = 0; d < dims.size(); ++d) {
    if ((empty || dims[d] == 1) && (strides[d] < -max_bytes || strides[d] > max_bytes)) strides[d] = 0;
    if (dims[d] == 0) repeated = repeated && strides[d] == 0;
    __int128 reach = static_cast<__int128>(std::max<int64_t>(dims[d], 1) - 1) * strides[d];
    (reach < 0 ? low : high) += reach;
  }
  const bool inside = low >= 0 && (high + 1) * static_cast<__int128>(ir::size_of(dtype)) <= bytes;
  if (!empty && !inside) fail(Code::format, "step \"{}\" has an operand that leaves its buffer", step);
  if (!empty || (repeated && inside)) return;
  offset = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 0) strides[d] = 1;
  }
}

// An error in what the caller gave, found while the step ran.
void name_step(Error& e, const LoadedFunction& loaded, size_t step) {
  const plan::Step& s = loaded.program->steps[step];
  const bool known = s.origin < loaded.plan->origins.size();
  e.message = fmt::format("step \"{}\"{}: {}", s.label, known ? " (" + loaded.plan->origins[s.origin].target + ")" : "", e.message);
  if (known) e.at(loaded.plan->origins[s.origin].text());
}

Error failed_assertion(const plan::Check& c, const plan::Plan& plan) {
  Error problem(Code::invalid_input, fmt::format("an assertion of the model failed: {}", std::string_view(c.why).substr(assertion.size())));
  if (c.origin != UINT32_MAX) problem.at(plan.origins[c.origin].text());
  return problem.fix("give inputs for which it holds; if it speaks of the model's own tensors, compile the model again");
}

// In eager's words.
Error failed_matrix(const plan::Check& c, int64_t number, const plan::Plan& plan) {
  const bool one = c.why.starts_with(one_matrix);
  const std::string_view said = std::string_view(c.why).substr((one ? one_matrix : matrices).size());
  const size_t end = std::min(said.find('\n'), said.size());
  std::string text(said.substr(std::min(end + 1, said.size())));
  for (size_t order; (order = text.find('#')) != std::string::npos;) text.replace(order, 1, std::to_string(number % matrix_failures));
  Error problem(Code::singular, fmt::format("{}{}: {}", said.substr(0, end), one ? "" : fmt::format(": (Batch element {})", number / matrix_failures), text));
  if (c.origin != UINT32_MAX) problem.at(plan.origins[c.origin].text());
  return problem;
}

}  // namespace

std::unique_ptr<Resolved> resolve(const LoadedFunction& loaded, const plan::Plan& plan, const Memory& memory, std::vector<int64_t> symbols, Workers& workers,
                                  backend::Stream* stream) {
  const plan::Function& f = *loaded.function;
  const plan::Program& p = *loaded.program;
  auto out = std::make_unique<Resolved>();
  out->program = &p;
  out->symbols = std::move(symbols);
  out->sizes.resize(f.sizes.code.size());
  evaluate(f.sizes, out->symbols, out->sizes);
  for (const plan::Check& c : f.checks) {
    int64_t l = out->sizes[c.left], r = out->sizes[c.right];
    if (c.equal ? l == r : l <= r) continue;
    if (c.why.starts_with(assertion)) throw failed_assertion(c, plan);
    if (c.why.starts_with(one_matrix) || c.why.starts_with(matrices)) throw failed_matrix(c, l, plan);
    Error problem(Code::invalid_input, fmt::format("these input sizes do not fit the model: {} ({} {} {})", c.why, l, c.equal ? "is not" : "is more than", r));
    if (c.origin != UINT32_MAX && !plan.origins[c.origin].file.empty()) problem.at(fmt::format("{}:{}", plan.origins[c.origin].file, plan.origins[c.origin].line));
    throw problem.fix("give sizes for which this holds, or compile the model for an example of these sizes");
  }
  for (const plan::Binding& b : f.bindings) {
    std::vector<int64_t> dims;
    for (uint32_t d : b.dims) dims.push_back(out->sizes[d]);
    check_sizes(dims, b.name);
    out->binding_dims.push_back(std::move(dims));
  }
  std::vector<size_t> offsets;
  out->arena_bytes = place_arena(p, out->sizes, loaded.backend->alignment(), offsets);
  size_t count = 0;
  for (const plan::Step& s : p.steps) {
    for (const plan::OperandView& o : s.operands) count += 2 * o.dims.size();
  }
  out->storage.resize(count);
  int64_t* at = out->storage.data();
  auto bytes_of = [&](const Buffer& b) -> int64_t {
    switch (b.kind) {
      case Buffer::Kind::arena: return out->sizes[b.bytes];
      case Buffer::Kind::binding: {
        int64_t n = static_cast<int64_t>(ir::size_of(f.bindings[b.index].dtype));
        for (int64_t d : out->binding_dims[b.index]) n *= d;
        return n;
      }
      case Buffer::Kind::weight: return static_cast<int64_t>(memory.weight_bytes[b.index]);
      default: return static_cast<int64_t>(memory.derived_bytes[b.index]);
    }
  };
  for (uint32_t n = 0; n < p.steps.size(); ++n) {
    const plan::Step& s = p.steps[n];
    Resolved::Step step;
    for (uint32_t k = 0; k < s.operands.size(); ++k) {
      const plan::OperandView& o = s.operands[k];
      backend::TensorRef t;
      t.dtype = o.dtype;
      t.rank = static_cast<int>(o.dims.size());
      for (uint32_t d : o.dims) *at++ = out->sizes[d];
      std::span<int64_t> dims(at - t.rank, at);
      for (uint32_t d : o.strides) *at++ = out->sizes[d];
      std::span<int64_t> strides(at - t.rank, at);
      t.dims = dims.data();
      t.strides = strides.data();
      const Buffer& b = p.buffers[o.buffer];
      int64_t offset = out->sizes[o.offset];
      check_bounds(dims, strides, offset, t.dtype, bytes_of(b), s.label);
      int64_t bytes = offset * static_cast<int64_t>(ir::size_of(t.dtype));
      switch (b.kind) {
        case Buffer::Kind::arena: out->in_arena.push_back({n, k, offsets[o.buffer] + static_cast<size_t>(bytes)}); break;
        case Buffer::Kind::binding: out->patches.push_back({n, k, b.index, bytes}); break;
        default: out->of_weights.push_back({n, k, b.index, b.kind == Buffer::Kind::derived, bytes}); break;
      }
      step.operands.push_back(t);
    }
    for (uint32_t x : s.sizes) step.sizes.push_back(out->sizes[x]);
    backend::Call call{step.operands, step.sizes, nullptr, nullptr, nullptr, &workers, loaded.backend, stream};
    auto consider = [&](const LoadedFunction::Kernel& k) {
      call.constants = k.constants.get();
      backend::Resolved found = k.kernel->resolve(call);
      if (step.chosen == nullptr || found.nanoseconds < step.kernel.nanoseconds) step.chosen = &k, step.kernel = std::move(found);
    };
    try {
      consider(loaded.steps[n]);
      for (const LoadedFunction::Kernel& k : loaded.steps[n].alternatives) consider(k);
      if (std::isinf(step.kernel.nanoseconds)) fail(Code::format, "no kernel of the step can compute these sizes");
    } catch (Error& e) {
      e.message = fmt::format("step {} (\"{}\"): {}", n, s.label, e.message);
      throw;
    }
    out->scratch_bytes = std::max(out->scratch_bytes, step.kernel.scratch);
    out->steps.push_back(std::move(step));
  }
  point_at_weights(*out, memory);
  return out;
}

int64_t bytes_moved(const Resolved::Step& step) {
  int64_t bytes = 0;
  for (const backend::TensorRef& t : step.operands) {
    auto size = static_cast<int64_t>(ir::size_of(t.dtype));
    for (int d = 0; d < t.rank; ++d) size *= t.strides[d] == 0 ? 1 : t.dims[d];
    bytes += size;
  }
  return bytes;
}

size_t usual_bytes(const LoadedFunction& loaded, const plan::Plan& plan, std::span<const size_t> weight_bytes, std::span<const size_t> derived_bytes, Workers& workers) {
  Memory nowhere;
  nowhere.weights.resize(weight_bytes.size());
  nowhere.derived.resize(derived_bytes.size());
  nowhere.weight_bytes.assign(weight_bytes.begin(), weight_bytes.end());
  nowhere.derived_bytes.assign(derived_bytes.begin(), derived_bytes.end());
  std::vector<int64_t> symbols;
  for (const plan::Symbol& s : loaded.function->symbols) symbols.push_back(s.opt);
  try {
    const auto resolved = resolve(loaded, plan, nowhere, std::move(symbols), workers);
    return resolved->arena_bytes + resolved->scratch_bytes;
  } catch (const Error& e) {
    if (e.code != Code::invalid_input) throw;
    return 0;
  }
}

bool is_streamed(const Resolved& r, const Resolved::WeightOperand& w) {
  return r.streaming != nullptr && (w.derived ? r.streaming->derived : r.streaming->weights)[w.index] != nullptr;
}

bool point_at_weights(Resolved& r, const Memory& memory) {
  bool changed = r.streaming != memory.streaming;
  r.streaming = memory.streaming;
  r.in_ring.clear();
  for (const Resolved::WeightOperand& w : r.of_weights) {
    if (is_streamed(r, w)) {
      const Streaming::OfFunction& here = r.streaming->functions.at(r.program);
      r.in_ring.push_back({w.step, w.operand, here.places.at({w.step, w.derived, w.index}) + static_cast<size_t>(w.offset)});
      r.steps[w.step].operands[w.operand].data = nullptr;
      continue;
    }
    std::byte* data = w.derived ? memory.derived[w.index] : const_cast<std::byte*>(memory.weights[w.index]);
    if (data != nullptr) data += w.offset;
    std::byte*& at = r.steps[w.step].operands[w.operand].data;
    changed = changed || at != data;
    at = data;
  }
  return changed;
}

void point(Resolved& r, std::span<std::byte* const> bindings, const RunMemory& memory) {
  for (const Resolved::ArenaOperand& a : r.in_arena) r.steps[a.step].operands[a.operand].data = memory.arena + a.offset;
  for (const Resolved::ArenaOperand& a : r.in_ring) r.steps[a.step].operands[a.operand].data = memory.ring + a.offset;
  for (const Resolved::Patch& p : r.patches) r.steps[p.step].operands[p.operand].data = bindings[p.binding] + p.offset;
}

#ifdef INGOT_FAULTS
namespace {

// INGOT_FAULT=function:step makes the first element that this step writes wrong, like a bug in its kernel. Only in libraries built for tests.
void inject_fault(const LoadedFunction& loaded, const Resolved& r, size_t step, backend::Stream& stream) {
  const char* wanted = std::getenv("INGOT_FAULT");
  if (wanted == nullptr || fmt::format("{}:{}", loaded.function->name, step) != wanted) return;
  const backend::TensorRef& t = r.steps[step].operands[r.steps[step].operands.size() - loaded.program->steps[step].writes];
  if (kernels::numel(t) == 0) return;
  // Flips the highest bits below the sign: for a float, the exponent.
  std::byte high{};
  std::byte* last = t.data + ir::size_of(t.dtype) - 1;
  stream.copy(&high, last, 1);
  stream.wait();
  high ^= ir::is_bool(t.dtype) ? std::byte{1} : std::byte{0x44};
  stream.copy(last, &high, 1);
  stream.wait();
}

}  // namespace
#endif

void run_step(const LoadedFunction& loaded, const Resolved& r, size_t step, std::byte* scratch, Workers& workers, backend::Stream& stream) {
  const Resolved::Step& s = r.steps[step];
  try {
    s.chosen->kernel->run({s.operands, s.sizes, s.chosen->constants.get(), s.kernel.state.get(), scratch, &workers, loaded.backend, &stream});
  } catch (Error& e) {
    if (e.code == Code::invalid_input) name_step(e, loaded, step);
    throw;
  }
#ifdef INGOT_FAULTS
  inject_fault(loaded, r, step, stream);
#endif
}

void run(const LoadedFunction& loaded, Resolved& r, std::span<std::byte* const> bindings, const RunMemory& memory, Workers& workers, backend::Stream& stream,
         CopyStream* copy_stream, bool marks) {
  point(r, bindings, memory);
  const StepWatch* watch = wanted_step_watch();
  const Watched whole(watch, loaded.function->name, "");
  if (marks) stream.mark();
  const Streaming::OfFunction* streamed = r.streaming != nullptr ? &r.streaming->functions.at(r.program) : nullptr;
  std::optional<CopyStream::Loading> loading;
  if (streamed != nullptr && !streamed->loads.empty()) loading.emplace(*copy_stream, *streamed, memory.ring, stream).begin();
  for (uint32_t n = 0; n < r.steps.size(); ++n) {
    if (loading) loading->before(n);
    {
      const Watched step(watch, loaded.program->steps[n].label, r.steps[n].chosen->kernel->name);
      run_step(loaded, r, n, memory.scratch, workers, stream);
    }
    if (loading) loading->after(n);
    if (marks) stream.mark();
  }
}

}  // namespace ingot::runtime
