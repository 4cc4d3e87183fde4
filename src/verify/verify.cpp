#include "verify/verify.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "ir/half.h"
#include "ir/reference.h"
#include "runtime/stepper.h"
#include "runtime/strided.h"
#include "verify/values.h"

namespace ingot::verification {

using namespace ir;

namespace {

// Half of the distance from 1 to the next number.
double unit_of(DType t) {
  switch (t) {
    case DType::f16: return 0x1p-11;
    case DType::bf16: return 0x1p-8;
    case DType::f64: return 0x1p-53;
    default: return 0x1p-24;
  }
}

// Smaller numbers have fewer digits, or count as 0.
double smallest_of(DType t) { return t == DType::f16 ? 0x1p-14 : t == DType::f64 ? 0x1p-1022 : 0x1p-126; }

double infinity() { return std::numeric_limits<double>::infinity(); }

// The number's value in this type; infinity if it is too large.
double in_range(DType t, double v) {
  const double end = t == DType::f16 ? 65520 : t == DType::f64 ? infinity() : 0x1p128;
  return std::fabs(v) >= end ? std::copysign(infinity(), v) : v;
}

void compare(const Data& found, const Data& wanted, StepError& e) {
  const size_t n = static_cast<size_t>(found.numel());
  if (found.dims != wanted.dims) fail(Code::internal, "step {} of \"{}\" gives other sizes than its graph", e.step, e.function);
  size_t different = 0;
  for (size_t i = 0; i < n; ++i) {
    if (!found.floating()) {
      different += found.i[i] != wanted.i[i];
      e.largest = std::max(e.largest, std::fabs(static_cast<double>(wanted.i[i])));
      e.absolute = std::max(e.absolute, std::fabs(static_cast<double>(found.i[i]) - static_cast<double>(wanted.i[i])));
      continue;
    }
    const double x = found.f[i], y = in_range(found.dtype, wanted.f[i]);
    if (std::isfinite(y)) e.largest = std::max(e.largest, std::fabs(y));
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    e.absolute = std::isfinite(x) && std::isfinite(y) ? std::max(e.absolute, std::fabs(x - y)) : infinity();
  }
  const double unit = unit_of(found.dtype), scale = e.largest > 0 ? std::max(e.largest, smallest_of(found.dtype)) : 1;
  const double share = 1000.0 * static_cast<double>(different) / static_cast<double>(std::max<size_t>(n, 1));
  const double worst = std::max(e.roundings, found.floating() ? e.absolute / (unit * scale) : share);
  e.roundings = std::isnan(worst) ? infinity() : worst;
}

std::string text_of(const plan::Plan& plan, uint32_t origin) {
  if (origin >= plan.origins.size() || plan.origins[origin].file.empty()) return "";
  const plan::Origin& o = plan.origins[origin];
  return fmt::format("{}:{}{}{}", o.file, o.line, o.code.empty() ? "" : "  ", o.code);
}

// The elements of a strided tensor, from the bytes of its buffer.
Data elements(DType dtype, Index dims, const Index& strides, int64_t start, std::span<const std::byte> buffer) {
  const size_t size = size_of(dtype);
  int64_t count = 1;
  for (int64_t d : dims) count *= d;
  std::vector<std::byte> dense(static_cast<size_t>(count) * size);
  Index at(dims.size(), 0);
  for (int64_t n = 0; n < count; ++n) {
    int64_t offset = start;
    for (size_t d = 0; d < dims.size(); ++d) offset += at[d] * strides[d];
    const auto from = static_cast<size_t>(offset) * size;
    if (offset < 0 || from + size > buffer.size()) fail(Code::internal, "a value of the plan is outside of its buffer");
    std::copy_n(buffer.begin() + static_cast<int64_t>(from), size, dense.begin() + n * static_cast<int64_t>(size));
    for (size_t d = dims.size(); d-- > 0 && ++at[d] == dims[d];) at[d] = 0;
  }
  return unpack(dtype, std::move(dims), dense);
}
Data elements(const compile::BufferView& place, std::span<const int64_t> symbols, std::span<const std::byte> buffer) {
  Index dims = sizes_of(place.layout.dims, symbols), strides;
  for (const Dim& d : place.layout.strides) strides.push_back(d.evaluate(symbols));
  const bool empty = std::find(dims.begin(), dims.end(), 0) != dims.end();
  return elements(place.dtype, std::move(dims), strides, empty ? 0 : place.layout.offset.evaluate(symbols), buffer);
}

// The elements as sortable numbers of the packed type.
std::vector<uint64_t> sorted(const Data& data, DType as) {
  std::vector<uint64_t> out;
  out.reserve(static_cast<size_t>(data.numel()));
  for (double x : data.f) out.push_back(std::bit_cast<uint64_t>(as == DType::f32 ? static_cast<double>(static_cast<float>(x)) : rounded_to(as, x)));
  for (int64_t x : data.i) out.push_back(static_cast<uint64_t>(x));
  std::sort(out.begin(), out.end());
  return out;
}

// Packing moves elements: the packed operand must contain each element of B as often as B does. The rest is padding.
void compare_packed(const Data& b, const Data& packed, StepError& e) {
  const std::vector<uint64_t> wanted = sorted(b, packed.dtype), found = sorted(packed, packed.dtype);
  std::vector<uint64_t> missing;
  std::set_difference(wanted.begin(), wanted.end(), found.begin(), found.end(), std::back_inserter(missing));
  e.roundings = 1000.0 * static_cast<double>(missing.size()) / static_cast<double>(std::max<size_t>(wanted.size(), 1));
  e.compared = true;
  e.dtype = torch_name_of(packed.dtype);
}

bool gives(const plan::Binding& b) { return b.kind == plan::Binding::Kind::output || (b.kind == plan::Binding::Kind::input && b.written); }

}  // namespace

double bound_of(DType t, const Settings& settings, bool product) {
  if (!is_float(t)) return 0;
  // For half types, or operands rounded to one, the bound includes some of their roundings.
  const double halves = settings.bound * 0.032;
  if (t == DType::f16 || t == DType::bf16) return halves + settings.bound * unit_of(DType::f32) / unit_of(t);
  return settings.bound + (product && settings.tf32 && t == DType::f32 ? halves * unit_of(DType::f16) / unit_of(t) : 0);
}

struct Verifier::State {
  std::shared_ptr<const plan::Plan> plan;
  const compile::Record& record;
  Settings settings;
  runtime::Stepper stepper;
  std::optional<Values> prepared;

  Data weight(std::string_view name, const Type& type, std::span<const int64_t> symbols) const {
    for (const plan::Weight& w : plan->weights) {
      if (w.name == name) return unpack(type.dtype, sizes_of(type.dims, symbols), {w.data, w.bytes});
    }
    fail(Code::internal, "the graph has a weight \"{}\", which the plan has not", name);
  }

  std::vector<StepError> steps(const plan::Function& f, const plan::Program& p, const compile::Record::Program& program, Values& values) {
    if (program.steps.size() != p.steps.size()) fail(Code::internal, "function \"{}\" has {} steps, compiled anew {}", f.name, p.steps.size(), program.steps.size());
    std::vector<size_t> last(values.graph().values.size(), SIZE_MAX);  // the step that completes a value
    for (size_t n = 0; n < program.steps.size(); ++n) {
      for (const compile::StepResult& r : program.steps[n]) last[r.of] = n;
    }
    std::vector<StepError> out;
    for (size_t n = 0; n < p.steps.size(); ++n) {
      stepper.run(n);
      StepError& e = out.emplace_back();
      const plan::Step& s = p.steps[n];
      e.function = f.name;
      e.step = n;
      e.kernel = s.kernel;
      e.label = s.label;
      e.origin = text_of(*plan, s.origin);
      for (const compile::StepResult& r : program.steps[n]) result(r, s, values, last[r.of] == n, e);
      if (program.steps[n].empty() && s.kernel == "matmul_pack") compare_packed(operand(f, s.operands[0]), operand(f, s.operands.back()), e);
      if (settings.stop && e.over()) break;
    }
    return out;
  }

  // Runs a function at these sizes and returns what it writes, in the order of its bindings: inputs that it writes in place, then its results.
  std::vector<std::vector<std::byte>> run(size_t index, std::vector<int64_t> symbols, std::vector<std::vector<std::byte>> inputs, std::vector<StepError>& out) {
    const plan::Function& f = plan->functions[index];
    if (!f.regions.empty()) return run_regions(index, std::move(symbols), std::move(inputs), out);
    const compile::Record::Program& program = record.functions[index];
    const Graph& g = program.graph;
    Values values(g, symbols);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Type& type = g.type(g.inputs[i].value);
      values.set(g.inputs[i].value, unpack(type.dtype, sizes_of(type.dims, symbols), inputs[i]));
    }
    for (const Weight& w : g.weights) {
      const uint32_t derived = program.derived[w.value];
      values.set(w.value, derived == none_id ? weight(w.name, g.type(w.value), symbols) : prepared->up_to(record.prepare.graph.outputs[derived].value));
    }
    stepper.begin(index, symbols, inputs);
    for (StepError& e : steps(f, f.programs[stepper.placement().target], program, values)) out.push_back(std::move(e));
    std::vector<int64_t> sizes(f.sizes.code.size());
    evaluate(f.sizes, symbols, sizes);
    std::vector<std::vector<std::byte>> results;
    for (size_t b = 0; b < f.bindings.size(); ++b) {
      if (!gives(f.bindings[b])) continue;
      size_t bytes = size_of(f.bindings[b].dtype);
      for (plan::SizeRef d : f.bindings[b].dims) bytes *= static_cast<size_t>(sizes[d]);
      results.push_back(stepper.read_binding(b, bytes));
    }
    return results;
  }

  std::vector<std::vector<std::byte>> run_regions(size_t index, std::vector<int64_t> symbols, std::vector<std::vector<std::byte>> inputs, std::vector<StepError>& out);

  bool stopped(const std::vector<StepError>& steps) const { return settings.stop && !steps.empty() && steps.back().over(); }

  // An operand of prepare, whose sizes are constants.
  Data operand(const plan::Function& f, const plan::OperandView& o) {
    std::vector<int64_t> sizes(f.sizes.code.size());
    evaluate(f.sizes, {}, sizes);
    Index dims, strides;
    for (plan::SizeRef d : o.dims) dims.push_back(sizes[d]);
    for (plan::SizeRef d : o.strides) strides.push_back(sizes[d]);
    return elements(o.dtype, std::move(dims), strides, sizes[o.offset], stepper.read(o.buffer));
  }

  void result(const compile::StepResult& r, const plan::Step& s, Values& values, bool complete, StepError& e) {
    const std::vector<std::byte> buffer = stepper.read(r.place.buffer);
    const Data found = elements(r.place, values.symbols(), buffer);
    const bool reads_floats = std::any_of(s.operands.begin(), s.operands.end() - s.writes, [](const plan::OperandView& o) { return is_float(o.dtype); });
    if (values.is_known(r.value)) {
      compare(found, values.up_to(r.value), e);
      e.compared = true;
    }
    e.dtype = torch_name_of(r.place.dtype);
    // Integer results that depend on comparing or rounding floats may differ.
    e.bound = std::max(e.bound, is_float(r.place.dtype) ? bound_of(r.place.dtype, settings, s.kernel != "fused") : reads_floats ? 1 : 0);
    if (complete && !buffer.empty()) values.replace(r.of, elements(r.whole, values.symbols(), buffer));
  }
};

// Runs the regions of a function in order (like runtime/routine.cpp), with values in host memory.
class Verifier::RegionWalk {
 public:
  using Bytes = std::vector<std::byte>;
  RegionWalk(State& state, size_t index, std::vector<int64_t> symbols, std::vector<Bytes> inputs, std::vector<StepError>& out)
      : state_(state), f_(state.plan->functions[index]), symbols_(std::move(symbols)), sizes_(f_.sizes.code.size()), values_(f_.bindings.size() + f_.values.size()), out_(out) {
    std::move(inputs.begin(), inputs.end(), values_.begin());
    evaluate(f_.sizes, symbols_, sizes_);
  }

  std::vector<Bytes> run() {
    for (const plan::Region& r : f_.regions) {
      switch (r.kind) {
        case plan::Region::Kind::straight:
          if (!r.calls.empty()) call(r.calls[0]);
          break;
        case plan::Region::Kind::branch: call(r.calls[is_true(r.condition) ? 0 : 1]); break;
        case plan::Region::Kind::loop: loop(r); break;
      }
      if (state_.stopped(out_)) break;
      for (const plan::Region::Read& x : r.reads) {
        std::memcpy(&symbols_[x.symbol], values_[x.value].data(), sizeof(int64_t));
        evaluate(f_.sizes, symbols_, sizes_);
      }
    }
    std::vector<Bytes> results;
    for (size_t b = 0; b < f_.bindings.size(); ++b) {
      if (gives(f_.bindings[b])) results.push_back(values_[b]);
    }
    return results;
  }

 private:
  bool is_true(uint32_t value) const { return values_[value][0] != std::byte{0}; }

  void loop(const plan::Region& r) {
    for (const plan::Region::Carried& c : r.carried) values_[c.value] = values_[c.first];
    auto goes_on = [&](int64_t turn) {
      if (r.count != UINT32_MAX) return turn < sizes_[r.count];
      call(r.calls[0]);
      return is_true(r.condition);
    };
    for (int64_t turn = 0; goes_on(turn) && !state_.stopped(out_); ++turn) {
      call(r.calls.back());
      for (const plan::Region::Carried& c : r.carried) {
        if (c.next != c.value) values_[c.value] = std::move(values_[c.next]);
      }
    }
  }

  void call(const plan::Call& c) {
    const plan::Function& f = state_.plan->functions[c.function];
    std::vector<int64_t> symbols;
    for (size_t s = 0; s < f.symbols.size(); ++s) symbols.push_back(c.symbols[s] != UINT32_MAX ? sizes_[c.symbols[s]] : f.symbols[s].opt);
    std::vector<Bytes> inputs;
    std::vector<uint32_t> results;
    for (size_t i = 0; i < c.values.size(); ++i) {
      if (f.bindings[i].kind == plan::Binding::Kind::input) inputs.push_back(values_[c.values[i]]);
      if (gives(f.bindings[i])) results.push_back(c.values[i]);
    }
    std::vector<Bytes> made = state_.run(c.function, std::move(symbols), std::move(inputs), out_);
    for (size_t i = 0; i < results.size(); ++i) values_[results[i]] = std::move(made[i]);
  }

  State& state_;
  const plan::Function& f_;
  std::vector<int64_t> symbols_, sizes_;
  std::vector<Bytes> values_;
  std::vector<StepError>& out_;
};

std::vector<std::vector<std::byte>> Verifier::State::run_regions(size_t index, std::vector<int64_t> symbols, std::vector<std::vector<std::byte>> inputs,
                                                                 std::vector<StepError>& out) {
  return RegionWalk(*this, index, std::move(symbols), std::move(inputs), out).run();
}

Verifier::Verifier(std::shared_ptr<const plan::Plan> plan, const compile::Record& record, Settings settings)
    : state_(new State{plan, record, settings, runtime::Stepper(plan, settings.device, settings.threads), std::nullopt}) {}
Verifier::~Verifier() = default;

std::vector<StepError> Verifier::prepare() {
  State& s = *state_;
  s.stepper.begin_prepare();
  const plan::Function& f = s.plan->targets[s.stepper.placement().target].prepare;
  Values& values = s.prepared.emplace(s.record.prepare.graph, std::vector<int64_t>());
  for (const Weight& w : s.record.prepare.graph.weights) values.set(w.value, s.weight(w.name, s.record.prepare.graph.type(w.value), {}));
  return s.steps(f, f.programs[0], s.record.prepare, values);
}

std::vector<StepError> Verifier::function(size_t index, std::span<const runtime::HostTensor> inputs) {
  State& s = *state_;
  const plan::Function& f = s.plan->functions[index];
  std::vector<int64_t> symbols(f.symbols.size());
  const std::vector<plan::SymbolSource> sources = plan::symbol_sources(f);
  const auto count = static_cast<size_t>(std::count_if(f.bindings.begin(), f.bindings.end(), [](const plan::Binding& b) { return b.kind == plan::Binding::Kind::input; }));
  if (inputs.size() != count) fail(Code::invalid_input, "{} inputs are given, the plan takes {}", inputs.size(), count);
  std::vector<std::vector<std::byte>> bytes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const plan::Binding& b = f.bindings[i];
    if (inputs[i].dtype != b.dtype) fail(Code::invalid_input, "input \"{}\" is {}, the plan takes {}", b.name, torch_name_of(inputs[i].dtype), torch_name_of(b.dtype));
    if (inputs[i].rank != static_cast<int>(b.dims.size())) fail(Code::invalid_input, "input \"{}\" has rank {}, the plan takes rank {}", b.name, inputs[i].rank, b.dims.size());
    if (runtime::missing_data(inputs[i])) fail(Code::invalid_input, "input \"{}\" has no data: its pointer is NULL", b.name);
    std::vector<std::byte>& dense = bytes.emplace_back(runtime::bytes_of(inputs[i]));
    if (!dense.empty()) runtime::copy_strided(inputs[i], b.order, dense.data(), true);
  }
  for (size_t n = 0; n < symbols.size(); ++n) {
    const plan::SymbolSource& source = sources[n];
    symbols[n] = source.binding == UINT32_MAX ? f.symbols[n].opt : source.size.symbol_at(inputs[source.binding].dims[source.axis]);
    if (symbols[n] < f.symbols[n].min || symbols[n] > f.symbols[n].max)
      fail(Code::invalid_input, "size {} is {}, outside {}..{}", f.symbols[n].name, symbols[n], f.symbols[n].min, f.symbols[n].max);
  }
  std::vector<int64_t> sizes(f.sizes.code.size());
  evaluate(f.sizes, symbols, sizes);
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (size_t d = 0; d < f.bindings[i].dims.size(); ++d) {
      const int64_t wanted = sizes[f.bindings[i].dims[d]];
      if (inputs[i].dims[d] != wanted) fail(Code::invalid_input, "axis {} of input \"{}\" has size {}, but {} is needed", d, f.bindings[i].name, inputs[i].dims[d], wanted);
    }
  }
  std::vector<StepError> out;
  s.run(index, std::move(symbols), std::move(bytes), out);
  return out;
}

std::string to_json(std::string_view target, std::span<const StepError> steps) {
  auto number = [](double v) { return std::isfinite(v) ? fmt::format("{:.6g}", v) : std::string("null"); };
  auto text = [](const std::string& v) {
    std::string quoted;
    append_json_string(quoted, v);
    return quoted;
  };
  auto one = [&](const StepError& e) {
    return fmt::format(
        "{{\"function\": {}, \"step\": {}, \"kernel\": {}, \"label\": {}, \"origin\": {}, \"dtype\": {}, \"largest\": {}, \"absolute\": {}, \"roundings\": {}, \"bound\": {}, "
        "\"over\": {}}}",
        text(e.function), e.step, text(e.kernel), text(e.label), text(e.origin), e.compared ? text(e.dtype) : "null", number(e.largest), number(e.absolute),
        e.compared ? number(e.roundings) : "null", number(e.bound), e.over());
  };
  std::string out = "{\"target\": " + text(std::string(target)) + ", \"steps\": [";
  const StepError* first = nullptr;
  for (const StepError& e : steps) {
    if (&e != steps.data()) out += ", ";
    out += one(e);
    if (first == nullptr && e.over()) first = &e;
  }
  return out + "], \"first\": " + (first != nullptr ? one(*first) : "null") + "}";
}

}  // namespace ingot::verification
