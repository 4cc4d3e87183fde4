#include "compile/regions.h"

#include <algorithm>

#include "base/error.h"
#include "compile/size_table.h"
#include "ir/written.h"
#include "plan/regions.h"

namespace ingot::compile {

using namespace ir;

namespace {

uint32_t weight_named(const plan::Plan& plan, std::string_view name) {
  auto found = std::find_if(plan.weights.begin(), plan.weights.end(), [&](const plan::Weight& w) { return w.name == name; });
  if (found == plan.weights.end()) fail(Code::internal, "state \"{}\" has no first value", name);
  return static_cast<uint32_t>(found - plan.weights.begin());
}

// The same bindings as storage/place.cpp makes for straight functions.
void bind(const Graph& g, const plan::Plan& plan, SizeTable& sizes, plan::Function& f) {
  using Kind = plan::Binding::Kind;
  const std::vector<ValueId> written = written_by_outputs(g);
  for (const Input& i : g.inputs) {
    plan::Binding b{i.name, g.type(i.value).dtype, sizes.refs(g.given_dims(i)), {i.order.begin(), i.order.end()}, Kind::input};
    b.written = std::find(written.begin(), written.end(), i.value) != written.end();
    f.bindings.push_back(std::move(b));
  }
  for (const Output& o : g.outputs) {
    if (o.to == Output::To::caller) f.bindings.push_back({o.name, g.type(o.value).dtype, sizes.refs(g.type(o.value).dims), {}, Kind::output});
  }
  for (size_t o = 0; o < g.outputs.size(); ++o) {
    if (g.outputs[o].to != Output::To::weight) continue;
    const Type& t = g.type(written[o]);
    f.bindings.push_back({g.outputs[o].name, t.dtype, sizes.refs(t.dims), {}, Kind::state, false, weight_named(plan, g.outputs[o].name)});
  }
}

// An upper bound of the symbol that a check gives, if it can be evaluated before the symbol is known.
std::optional<Dim> bound_of(const Graph& g, SymbolId s, const std::vector<bool>& known) {
  const Dim symbol = Dim::symbol(s);
  for (const Check& c : g.checks) {
    if (c.kind != Check::less_equal || !(c.left == symbol)) continue;
    std::vector<SymbolId> in;
    c.right.collect_symbols(in);
    if (std::all_of(in.begin(), in.end(), [&](SymbolId x) { return known[x]; })) return min(c.right, Dim(g.symbols[s].max));
  }
  if (g.symbols[s].max != INT64_MAX) return Dim(g.symbols[s].max);
  return std::nullopt;
}

bool uses(const plan::Function& f, uint32_t symbol) {
  return std::any_of(f.sizes.code.begin(), f.sizes.code.end(), [&](const SizeInstruction& i) { return i.op == SizeInstruction::Op::symbol && i.a == symbol; });
}

}  // namespace

void emit_regions(const NamedGraph& from, size_t index, plan::Plan& plan) {
  const Graph& g = from.graph;
  plan::Function& f = plan.functions[index];
  SizeTable sizes;
  for (const Symbol& s : g.symbols) f.symbols.push_back({s.name, s.min, s.opt, s.max});
  bind(g, plan, sizes, f);
  for (const Type& t : from.regions->values) f.values.push_back({t.dtype, sizes.refs(t.dims)});
  std::vector<bool> known(g.symbols.size(), true);
  for (const Regions::Region& r : from.regions->list) {
    for (const Regions::Read& read : r.reads) known[read.symbol] = false;
  }
  for (const Regions::Region& r : from.regions->list) {
    plan::Region made{static_cast<plan::Region::Kind>(r.kind), r.condition, {}, {}, {}, r.count ? sizes.ref(*r.count) : UINT32_MAX};
    for (const Regions::Call& c : r.calls) {
      const plan::Function& callee = plan.functions[c.function];
      plan::Call call{c.function, c.values, std::vector<plan::SizeRef>(callee.symbols.size(), UINT32_MAX)};
      for (uint32_t s = 0; s < callee.symbols.size(); ++s) {
        auto own = std::find_if(g.symbols.begin(), g.symbols.end(), [&](const Symbol& x) { return x.name == callee.symbols[s].name; });
        const auto number = static_cast<SymbolId>(own - g.symbols.begin());
        if (own != g.symbols.end() && known[number] && uses(callee, s)) call.symbols[s] = sizes.ref(Dim::symbol(number));
      }
      made.calls.push_back(std::move(call));
    }
    for (const Regions::Carried& c : r.carried) made.carried.push_back({c.first, c.value, c.next});
    std::vector<plan::Region::Read> reads;
    for (const Regions::Read& read : r.reads) {
      plan::Region::Read x{read.value, read.symbol};
      if (const auto bound = bound_of(g, read.symbol, known)) x.bound = sizes.ref(*bound);
      if (read.origin != none_id) {
        const Origin& o = g.origins[read.origin];
        x.origin = static_cast<uint32_t>(plan.origins.size());
        plan.origins.push_back({o.file, o.code, o.module, o.target, o.line});
      }
      made.reads.push_back(x);
    }
    for (const Regions::Read& read : r.reads) known[read.symbol] = true;
    f.regions.push_back(std::move(made));
  }
  f.sizes = sizes.take();
}

}  // namespace ingot::compile
