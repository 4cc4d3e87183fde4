#include "plan/describe.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "plan/regions.h"

namespace ingot::plan {

constexpr int max_parts = 1000;  // per size

namespace {

// `parts` bounds the text: sizes that share subexpressions would print exponentially long.
std::string size_text(const Function& f, SizeRef ref, int& parts) {
  if (--parts < 0) return "...";
  const SizeInstruction& i = f.sizes.code[ref];
  using Op = SizeInstruction::Op;
  auto whole = [&](uint32_t r) { return size_text(f, r, parts); };
  auto part = [&](uint32_t r) {
    Op op = f.sizes.code[r].op;
    std::string t = whole(r);
    return op == Op::add || op == Op::sub ? "(" + t + ")" : t;
  };
  // Left first, so that `parts` is used in a fixed order: the operands of + may be evaluated in any.
  auto pair = [&](std::string left, const char* between, auto right) { return std::move(left) + between + right(i.b); };
  switch (i.op) {
    case Op::constant: return std::to_string(i.value);
    case Op::symbol: return f.symbols[i.a].name;
    case Op::add: return pair(whole(i.a), " + ", whole);
    case Op::sub: return pair(whole(i.a), " - ", part);
    case Op::mul: return pair(part(i.a), "*", part);
    default: {
      const char* names[] = {"floordiv(", "mod(", "min(", "max("};
      return names[static_cast<int>(i.op) - static_cast<int>(Op::floordiv)] + pair(whole(i.a), ", ", whole) + ")";
    }
  }
}

// Caches the texts of a plan's sizes: a small file may name a long one often.
class SizeTexts {
 public:
  std::string of(const Function& f, SizeRef ref) {
    int left = std::min(parts_, max_parts);
    parts_ -= left;
    std::string text = size_text(f, ref, left);
    parts_ += std::max(left, 0);
    return text;
  }

 private:
  int parts_ = 2'000'000;
};

}  // namespace

std::string size_text(const Function& f, SizeRef ref) {
  int parts = max_parts;
  return size_text(f, ref, parts);
}

namespace {

class Json {
 public:
  std::string out;
  SizeTexts size_texts;
  void key(std::string_view k) {
    comma();
    append_json_string(out, k);
    out += ": ";
    fresh_ = true;
  }
  void text(std::string_view t) {
    comma();
    append_json_string(out, t);
  }
  void boolean(bool b) {
    comma();
    out += b ? "true" : "false";
  }
  void number(int64_t n) {
    comma();
    out += std::to_string(n);
  }
  void open(char c) {
    comma();
    out += c;
    fresh_ = true;
  }
  void close(char c) {
    out += c;
    fresh_ = false;
  }

 private:
  void comma() {
    if (!fresh_) out += ", ";
    fresh_ = false;
  }
  bool fresh_ = true;
};

void size(Json& j, const Function& f, SizeRef ref) { j.text(j.size_texts.of(f, ref)); }

void sizes(Json& j, const Function& f, const std::vector<SizeRef>& refs) {
  j.open('[');
  for (SizeRef r : refs) {
    if (f.sizes.code[r].op == SizeInstruction::Op::constant) {
      j.number(f.sizes.code[r].value);
    } else {
      size(j, f, r);
    }
  }
  j.close(']');
}

// Many steps may name one origin, so its text is cut, between two UTF-8 characters.
std::string start_of(const std::string& text) {
  size_t end = std::min<size_t>(text.size(), 1000);
  while (end > 0 && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

// A program's steps and buffers.
void program(Json& j, const Plan& plan, const Function& f, const Program& p) {
  j.key("steps");
  j.open('[');
  for (const Step& s : p.steps) {
    j.open('{');
    j.key("kernel");
    j.text(s.kernel);
    if (!s.alternatives.empty()) {
      j.key("alternatives");
      j.open('[');
      for (const std::string& k : s.alternatives) j.text(k);
      j.close(']');
    }
    j.key("label");
    j.text(s.label);
    j.key("writes");
    j.open('[');
    for (size_t k = s.operands.size() - s.writes; k < s.operands.size(); ++k) {
      j.open('{');
      j.key("dtype");
      j.text(ir::name_of(s.operands[k].dtype));
      j.key("dims");
      sizes(j, f, s.operands[k].dims);
      j.close('}');
    }
    j.close(']');
    j.key("origin");
    if (s.origin == UINT32_MAX) {
      j.text("");
    } else {
      const Origin& o = plan.origins[s.origin];
      j.text(o.module.empty() ? start_of(o.file) + ":" + std::to_string(o.line) : start_of(o.module));
    }
    j.close('}');
  }
  j.close(']');
  j.key("buffers");
  j.open('[');
  for (const Buffer& b : p.buffers) {
    if (b.kind != Buffer::Kind::arena) continue;
    j.open('{');
    j.key("bytes");
    size(j, f, b.bytes);
    j.key("first");
    j.number(b.first);
    j.key("last");
    j.number(b.last);
    j.close('}');
  }
  j.close(']');
}

void order(Json& j, const std::vector<uint8_t>& axes) {
  if (axes.empty()) return;
  j.key("order");
  j.open('[');
  for (uint8_t axis : axes) j.number(axis);
  j.close(']');
}

constexpr const char* region_kinds[] = {"straight", "branch", "loop"};

// For a function with regions: what they run and which sizes they read. For a function that a region calls: that it is one.
void regions(Json& j, const Plan& plan, const Function& f) {
  const auto index = static_cast<size_t>(&f - plan.functions.data());
  if (called_functions(plan)[index]) {
    j.key("called");
    j.boolean(true);
  }
  if (f.regions.empty()) return;
  j.key("regions");
  j.open('[');
  for (const Region& r : f.regions) {
    j.open('{');
    j.key("kind");
    j.text(region_kinds[static_cast<size_t>(r.kind)]);
    j.key("calls");
    j.open('[');
    for (const Call& c : r.calls) j.text(plan.functions[c.function].name);
    j.close(']');
    j.key("reads");
    j.open('[');
    for (const Region::Read& x : r.reads) j.text(f.symbols[x.symbol].name);
    j.close(']');
    j.close('}');
  }
  j.close(']');
}

void function(Json& j, const Plan& plan, const Function& f) {
  j.open('{');
  j.key("name");
  j.text(f.name);
  j.key("symbols");
  j.open('[');
  const std::vector<SymbolSource> sources = symbol_sources(f);
  for (size_t i = 0; i < f.symbols.size(); ++i) {
    const Symbol& s = f.symbols[i];
    j.open('{');
    j.key("name");
    j.text(s.name);
    j.key("min");
    j.number(s.min);
    j.key("opt");
    j.number(s.opt);
    j.key("max");
    j.number(s.max);
    if (sources[i].binding != UINT32_MAX) {  // (size of the axis - offset) / factor
      j.key("input");
      j.number(sources[i].binding);
      j.key("axis");
      j.number(sources[i].axis);
      j.key("factor");
      j.number(sources[i].size.factor);
      j.key("offset");
      j.number(sources[i].size.offset);
    }
    j.close('}');
  }
  j.close(']');
  const std::vector<uint32_t> known = known_after(f);
  for (auto [kind, name] : {std::pair(Binding::Kind::input, "inputs"), std::pair(Binding::Kind::output, "outputs"), std::pair(Binding::Kind::state, "states")}) {
    j.key(name);
    j.open('[');
    for (const Binding& b : f.bindings) {
      if (b.kind != kind) continue;
      j.open('{');
      j.key("name");
      j.text(b.name);
      j.key("dtype");
      j.text(ir::torch_name_of(b.dtype));
      j.key("dims");
      sizes(j, f, b.dims);
      order(j, b.order);
      if (b.written) {
        j.key("written");
        j.boolean(true);
      }
      if (std::any_of(b.dims.begin(), b.dims.end(), [&](SizeRef d) { return known[d] > 0; })) {  // its sizes are read from data
        j.key("open");
        j.boolean(true);
      }
      j.close('}');
    }
    j.close(']');
  }
  regions(j, plan, f);
  j.key("programs");
  j.open('[');
  for (size_t t = 0; t < f.programs.size(); ++t) {
    j.open('{');
    j.key("target");
    j.text(plan.targets[t].target.text());
    program(j, plan, f, f.programs[t]);
    j.close('}');
  }
  j.close(']');
  j.close('}');
}

void target(Json& j, const Plan& plan, const ForTarget& t) {
  j.open('{');
  j.key("name");
  j.text(t.target.text());
  j.key("prepare");
  j.open('{');
  program(j, plan, t.prepare, t.prepare.programs[0]);
  j.close('}');
  j.key("derived");
  j.open('[');
  for (const Derived& d : t.derived) {
    j.open('{');
    j.key("name");
    j.text(d.name);
    j.key("bytes");
    j.number(static_cast<int64_t>(d.bytes));
    j.close('}');
  }
  j.close(']');
  j.key("code");
  j.open('[');
  for (const DeviceCode& c : t.code) {
    j.open('{');
    j.key("form");
    j.text(c.form == DeviceCode::Form::machine ? "machine" : "portable");
    j.key("architecture");
    j.number(c.architecture);
    j.key("kernels");
    j.number(static_cast<int64_t>(c.kernels.size()));
    j.key("bytes");
    j.number(static_cast<int64_t>(c.image.size()));
    j.close('}');
  }
  j.close(']');
  j.key("timings");
  j.open('[');
  for (const Timing& x : t.timings) {
    j.open('{');
    j.key("machine");
    j.text(x.machine);
    j.key("problem");
    j.text(x.problem);
    j.key("choice");
    j.text(x.choice);
    j.close('}');
  }
  j.close(']');
  j.close('}');
}

// ---- programs as text

struct Printer {
  const Plan& plan;
  const ForTarget& target;
  std::string out = {};
  SizeTexts texts = {};

  void sizes(const Function& f, const std::vector<SizeRef>& refs, const char* brackets) {
    out += brackets[0];
    for (size_t k = 0; k < refs.size(); ++k) out += (k > 0 ? ", " : "") + texts.of(f, refs[k]);
    out += brackets[1];
  }

  void operand(const Function& f, const Program& p, const OperandView& o) {
    const Buffer& b = p.buffers[o.buffer];
    switch (b.kind) {
      case Buffer::Kind::arena: out += fmt::format("buffer {} ", o.buffer); break;
      case Buffer::Kind::binding: out += f.bindings[b.index].name + " "; break;
      case Buffer::Kind::weight: out += plan.weights[b.index].name + " "; break;
      case Buffer::Kind::derived: out += target.derived[b.index].name + " "; break;
    }
    out += ir::name_of(o.dtype);
    sizes(f, o.dims, "[]");
    sizes(f, o.strides, "{}");
    if (std::string from = texts.of(f, o.offset); from != "0") out += " from " + from;
  }

  void step(const Function& f, const Program& p, const Step& s, size_t number) {
    out += fmt::format("  {} {}{}{} | {}:", number, s.kernel, s.alternatives.empty() ? "" : " or ", fmt::join(s.alternatives, " or "), s.label);
    for (size_t k = 0; k < s.operands.size(); ++k) {
      out += k + s.writes == s.operands.size() ? " -> " : k > 0 ? ", " : " ";
      operand(f, p, s.operands[k]);
    }
    if (!s.sizes.empty()) {
      out += "; sizes ";
      sizes(f, s.sizes, "[]");
    }
    if (!s.constants.empty()) out += fmt::format("; {} bytes {:016x}", s.constants.size(), hash64(s.constants));
    out += "\n";
  }

  std::string value(const Function& f, uint32_t v) { return v < f.bindings.size() ? f.bindings[v].name : fmt::format("value {}", v - f.bindings.size()); }

  void regions(const Function& f) {
    for (size_t v = 0; v < f.values.size(); ++v) {
      out += fmt::format("  value {}: {}", v, ir::name_of(f.values[v].dtype));
      sizes(f, f.values[v].dims, "[]");
      out += "\n";
    }
    for (size_t n = 0; n < f.regions.size(); ++n) {
      const Region& r = f.regions[n];
      out += fmt::format("  region {} {}", n, region_kinds[static_cast<size_t>(r.kind)]);
      if (r.condition != UINT32_MAX) out += (r.kind == Region::Kind::branch ? " by " : " while ") + value(f, r.condition);
      if (r.count != UINT32_MAX) out += fmt::format(" {} times", texts.of(f, r.count));
      out += "\n";
      for (const Region::Carried& c : r.carried) {
        out += fmt::format("    {} begins as {}, {}\n", value(f, c.value), value(f, c.first), c.next == c.value ? "written in place" : "then " + value(f, c.next));
      }
      for (const Call& c : r.calls) {
        const Function& callee = plan.functions[c.function];
        out += "    " + callee.name + ":";
        for (size_t i = 0; i < c.values.size(); ++i) {
          const bool first = callee.bindings[i].kind == Binding::Kind::output && (i == 0 || callee.bindings[i - 1].kind == Binding::Kind::input);
          out += (first ? " -> " : i > 0 ? ", " : " ") + value(f, c.values[i]);
        }
        out += "\n";
      }
      for (const Region::Read& x : r.reads) out += fmt::format("    {} = {}\n", f.symbols[x.symbol].name, value(f, x.value));
    }
  }

  void program(const Function& f, const Program& p) {
    if (!f.regions.empty()) {
      out += f.name + " in regions\n";
      return regions(f);
    }
    out += fmt::format("{} on {}\n", f.name, target.target.text());
    for (size_t k = 0; k < p.buffers.size(); ++k) {
      const Buffer& b = p.buffers[k];
      if (b.kind == Buffer::Kind::arena) out += fmt::format("  buffer {}: {} bytes, steps {} to {}\n", k, texts.of(f, b.bytes), b.first, b.last);
    }
    for (size_t k = 0; k < p.steps.size(); ++k) step(f, p, p.steps[k], k);
  }
};

}  // namespace

std::string print_programs(const Plan& plan, size_t target) {
  const ForTarget& t = plan.targets[target];
  Printer printer{plan, t};
  printer.program(t.prepare, t.prepare.programs[0]);
  for (const Derived& d : t.derived) printer.out += fmt::format("  {}: {} bytes\n", d.name, d.bytes);
  for (const Function& f : plan.functions) printer.program(f, f.programs[target]);
  return printer.out;
}

std::string print_programs(const Plan& plan) {
  std::string out;
  for (size_t t = 0; t < plan.targets.size(); ++t) out += print_programs(plan, t);
  return out;
}

std::string where(const Plan& plan, const Step& s) {
  if (s.origin >= plan.origins.size()) return "";
  const Origin& o = plan.origins[s.origin];
  const std::string line = o.file.empty() ? "" : fmt::format("{}:{}", start_of(o.file), o.line);
  return o.module.empty() || line.empty() ? line + start_of(o.module) : line + " in " + start_of(o.module);
}

std::string describe(const Plan& plan) {
  Json j;
  j.open('{');
  j.key("functions");
  j.open('[');
  for (const Function& f : plan.functions) function(j, plan, f);
  j.close(']');
  j.key("targets");
  j.open('[');
  for (const ForTarget& t : plan.targets) target(j, plan, t);
  j.close(']');
  j.key("weights");
  j.open('[');
  for (const Weight& w : plan.weights) {
    j.open('{');
    j.key("name");
    j.text(w.name);
    j.key("dtype");
    j.text(ir::torch_name_of(w.dtype));
    j.key("dims");
    j.open('[');
    for (int64_t d : w.dims) j.number(d);
    j.close(']');
    order(j, w.order);
    j.key("bytes");
    j.number(static_cast<int64_t>(w.bytes));
    j.key("tied_to");
    j.text(w.tied_to);
    j.key("source");
    j.text(w.source == Weight::Source::host ? "host" : "embedded");
    j.close('}');
  }
  j.close(']');
  j.key("external");
  j.open('[');
  for (const std::string& kernel : external_kernels(plan)) j.text(kernel);
  j.close(']');
  j.key("signature");
  j.text(plan.signature);
  j.key("signer");
  j.text(plan.signer);
  j.key("provenance");
  j.open('{');
  for (const auto& [key, value] : plan.provenance) {
    j.key(key);
    j.text(value);
  }
  j.close('}');
  j.close('}');
  return j.out;
}

}  // namespace ingot::plan
