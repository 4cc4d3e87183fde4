#include "plan/regions.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace ingot::plan {

namespace {

constexpr size_t max_rank = 24;

class Verifier {
 public:
  Verifier(const Plan& plan, size_t index) : plan_(plan), f_(plan.functions[index]), index_(index) {}

  void run() {
    if (std::any_of(f_.programs.begin(), f_.programs.end(), [](const Program& p) { return !p.steps.empty() || !p.buffers.empty(); })) bad("it has regions and steps");
    for (const Value& v : f_.values) {
      if (v.dims.size() > max_rank) bad("a value has an impossible rank");
      for (uint32_t d : v.dims) size(d, "a value");
    }
    check_reads();
    known_ = known_after(f_);
    for (const Binding& b : f_.bindings) {
      for (uint32_t d : b.dims) {
        if (b.kind != Binding::Kind::output && known_[d] != 0) bad("the size of an input is read from data");
      }
      written_.push_back(b.kind != Binding::Kind::output);
    }
    written_.resize(f_.bindings.size() + f_.values.size(), false);
    for (region_ = 0; region_ < f_.regions.size(); ++region_) region(f_.regions[region_]);
    for (size_t v = 0; v < f_.bindings.size(); ++v) {
      if (!written_[v]) bad("a result is never written");
    }
  }

 private:
  [[noreturn]] void bad(const std::string& what) const { fail(Code::format, "function \"{}\" of the plan is damaged: {}", f_.name, what); }
  void size(uint32_t s, const char* what) const {
    if (s >= f_.sizes.code.size()) bad(std::string(what) + " names a size that does not exist");
  }

  // Checks that each symbol is read once, and that no input gives it.
  void check_reads() {
    std::vector<bool> given(f_.symbols.size());
    const std::vector<SymbolSource> sources = symbol_sources(f_);
    for (size_t s = 0; s < given.size(); ++s) given[s] = sources[s].binding != UINT32_MAX;
    for (const Region& r : f_.regions) {
      for (const Region::Read& read : r.reads) {
        if (read.symbol >= given.size()) bad("a region reads a size that does not exist");
        if (given[read.symbol]) bad("size " + f_.symbols[read.symbol].name + " is read twice");
        given[read.symbol] = true;
        if (read.bound != UINT32_MAX) size(read.bound, "a bound");
        if (read.origin != UINT32_MAX && read.origin >= plan_.origins.size()) bad("a region names an origin that does not exist");
      }
    }
  }

  DType dtype(uint32_t v) const { return v < f_.bindings.size() ? f_.bindings[v].dtype : f_.values[v - f_.bindings.size()].dtype; }
  const std::vector<SizeRef>& dims(uint32_t v) const { return v < f_.bindings.size() ? f_.bindings[v].dims : f_.values[v - f_.bindings.size()].dims; }
  bool is_result(uint32_t v) const { return v >= f_.bindings.size() || f_.bindings[v].kind == Binding::Kind::output; }
  // Checks a value that a region uses now.
  void use(uint32_t v) const {
    if (v >= written_.size()) bad("a region names a value that does not exist");
    for (uint32_t d : dims(v)) {
      if (known_[d] > region_) bad("a region uses a size before it is read");
    }
  }
  void read(uint32_t v) const {
    use(v);
    if (!written_[v]) bad("a region reads a value before it is written");
  }
  void write(uint32_t v) {
    use(v);
    if (!is_result(v)) bad("a region writes what is read-only");
    written_[v] = true;
  }
  void number(uint32_t v, DType type) const {
    if (dtype(v) != type || !dims(v).empty()) bad("a region reads a number from a value of another type");
  }
  void alike(uint32_t a, uint32_t b) const {
    if (dtype(a) != dtype(b) || dims(a).size() != dims(b).size()) bad("a loop carries values of different types");
  }

  void region(const Region& r) {
    const bool counted = r.count != UINT32_MAX;
    if (counted) {
      if (r.kind != Region::Kind::loop || r.condition != UINT32_MAX) bad("a region counts turns but is not a loop, or has a condition too");
      size(r.count, "a loop");
      if (known_[r.count] > region_) bad("a region uses a size before it is read");
    }
    const size_t calls = r.kind == Region::Kind::straight ? std::min<size_t>(r.calls.size(), 1) : counted ? 1 : 2;
    if (r.calls.size() != calls) bad("a region has " + std::to_string(r.calls.size()) + " calls");
    if (r.kind != Region::Kind::loop && !r.carried.empty()) bad("a region carries values but is not a loop");
    if (r.kind == Region::Kind::straight && r.condition != UINT32_MAX) bad("a straight region has a condition");
    if (r.kind == Region::Kind::branch) {
      read(r.condition);
      number(r.condition, DType::b8);
    }
    for (const Region::Carried& c : r.carried) {
      read(c.first);
      use(c.value);
      use(c.next);
      alike(c.first, c.value);
      alike(c.first, c.next);
      // The body writes `next`, which is then swapped with `value`.
      if (c.value < f_.bindings.size() || c.next < f_.bindings.size()) bad("a loop carries a binding of the function");
      written_[c.value] = true;
    }
    const std::vector<bool> before = written_;
    std::vector<bool> after;
    for (const Call& c : r.calls) {
      // A value counts as written if both branches write it.
      if (r.kind == Region::Kind::branch && after.empty() && &c != r.calls.data()) {
        after = written_;
        written_ = before;
      }
      in_place_.clear();
      if (r.kind == Region::Kind::loop && &c == &r.calls.back()) {
        for (const Region::Carried& carried : r.carried) {
          if (carried.next == carried.value) in_place_.push_back(carried.value);
        }
      }
      call(c);
    }
    in_place_.clear();
    if (!after.empty()) std::transform(after.begin(), after.end(), written_.begin(), written_.begin(), [](bool a, bool b) { return a && b; });
    if (r.kind == Region::Kind::loop) {
      if (!counted) {
        read(r.condition);
        number(r.condition, DType::b8);
      }
      for (const Region::Carried& c : r.carried) read(c.next);
    }
    for (const Region::Read& x : r.reads) {
      read(x.value);
      number(x.value, DType::i64);
      if (x.bound != UINT32_MAX && known_[x.bound] > region_) bad("the bound of a size that is read is not known before");
    }
  }

  void call(const Call& c) {
    if (c.function <= index_ || c.function >= plan_.functions.size()) bad("a region runs a function that does not exist or does not come after it");
    const Function& f = plan_.functions[c.function];
    if (c.values.size() != f.bindings.size()) bad("a region gives " + std::to_string(c.values.size()) + " values for the bindings of \"" + f.name + "\"");
    if (c.symbols.size() != f.symbols.size())
      bad("a region gives " + std::to_string(c.symbols.size()) + " sizes to \"" + f.name + "\", which has " + std::to_string(f.symbols.size()));
    for (SizeRef s : c.symbols) {
      if (s == UINT32_MAX) continue;
      size(s, "a call");
      if (known_[s] > region_) bad("a region uses a size before it is read");
    }
    for (size_t i = 0; i < c.values.size(); ++i) {
      const Binding& b = f.bindings[i];
      const uint32_t v = c.values[i];
      if (b.kind != Binding::Kind::output) read(v);
      use(v);
      if (dtype(v) != b.dtype || dims(v).size() != b.dims.size()) bad("a value has another dtype or rank than the binding of \"" + f.name + "\" that it is for");
      const Binding* own = v < f_.bindings.size() ? &f_.bindings[v] : nullptr;
      const std::vector<uint8_t> order = own != nullptr ? own->order : std::vector<uint8_t>();
      if (b.kind == Binding::Kind::input && b.order != order) bad("an input of \"" + f.name + "\" has another axis order than the value that it gets");
      if (b.kind != Binding::Kind::input && !order.empty()) bad("\"" + f.name + "\" writes a value that is not row-major");
      const bool in_place = std::find(in_place_.begin(), in_place_.end(), v) != in_place_.end();
      if (b.kind == Binding::Kind::input && b.written && !in_place && (own == nullptr || !own->written)) bad("\"" + f.name + "\" writes what is read-only");
      if (in_place && (!b.written || std::count(c.values.begin(), c.values.end(), v) != 1))
        bad("\"" + f.name + "\" does not write what a loop has it write in place, or reads it too");
      if (b.kind == Binding::Kind::state && (own == nullptr || own->kind != Binding::Kind::state || own->weight != b.weight))
        bad("a state of \"" + f.name + "\" gets another state");
      if (b.kind == Binding::Kind::output) {
        // A call must not read or write a value twice that it writes.
        for (size_t k = 0; k < c.values.size(); ++k) {
          if (k != i && c.values[k] == v) bad("\"" + f.name + "\" writes a value twice, or reads it too");
        }
        write(v);
      }
    }
  }

  const Plan& plan_;
  const Function& f_;
  const size_t index_;
  size_t region_ = 0;
  std::vector<uint32_t> known_;  // see known_after
  std::vector<bool> written_;    // per value
  std::vector<uint32_t> in_place_;  // values that the call at hand writes although it reads them
};

}  // namespace

std::vector<uint32_t> known_after(const Function& f) {
  std::vector<uint32_t> symbols(f.symbols.size(), 0);
  for (uint32_t r = 0; r < f.regions.size(); ++r) {
    for (const Region::Read& read : f.regions[r].reads) symbols[read.symbol] = r + 1;
  }
  std::vector<uint32_t> out;
  for (const SizeInstruction& i : f.sizes.code) {
    const bool leaf = i.op == SizeInstruction::Op::constant || i.op == SizeInstruction::Op::symbol;
    out.push_back(i.op == SizeInstruction::Op::constant ? 0 : leaf ? symbols[i.a] : std::max(out[i.a], out[i.b]));
  }
  return out;
}

void verify_calls(const Plan& plan) {
  constexpr uint32_t deepest = 32;
  std::vector<uint32_t> depth(plan.functions.size(), 0);
  std::vector<bool> called(plan.functions.size(), false);
  for (size_t f = 0; f < plan.functions.size(); ++f) {  // callers come before callees
    for (const Region& r : plan.functions[f].regions) {
      for (const Call& c : r.calls) {
        if (called[c.function]) fail(Code::format, "function \"{}\" of the plan is run from two places", plan.functions[c.function].name);
        called[c.function] = true;
        depth[c.function] = depth[f] + 1;
        if (depth[c.function] > deepest) fail(Code::format, "the regions of the plan are nested too deep");
      }
    }
  }
}

void verify_regions(const Plan& plan, size_t function) { Verifier(plan, function).run(); }

std::vector<bool> called_functions(const Plan& plan) {
  std::vector<bool> out(plan.functions.size());
  for (const Function& f : plan.functions) {
    for (const Region& r : f.regions) {
      for (const Call& c : r.calls) out[c.function] = true;
    }
  }
  return out;
}

}  // namespace ingot::plan
