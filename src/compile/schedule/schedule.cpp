#include "compile/schedule/schedule.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/hash.h"
#include "compile/schedule/scheduler.h"
#include "compile/schedule/tuning.h"
#include "kernels/fused/run/fused_args.h"

namespace ingot::compile {

using namespace ir;

std::vector<StridedLayout> layouts_of(const std::vector<BufferView>& places) {
  std::vector<StridedLayout> out;
  for (const BufferView& p : places) out.push_back(p.layout);
  return out;
}

void StepOperands::add(kernels::Role role, BufferView view) {
  views.push_back(std::move(view));
  roles.push_back(role);
}

void StepOperands::add(kernels::Role role, std::span<const BufferView> all) {
  views.insert(views.end(), all.begin(), all.end());
  roles.insert(roles.end(), all.size(), role);
}

void StepOperands::add_body(const WrittenBody& written) {
  const size_t loads = written.operands.size() - written.body.stores.size();
  add(kernels::Role::body, std::span(written.operands).first(loads));
  add(kernels::Role::output, std::span(written.operands).subspan(loads));
}

Schedule make_schedule(const StoragePlan& s) { return Scheduler(s).run(); }

Schedule Scheduler::run() {
  // If a step misses something, the others are still scheduled: one round finds many missing values.
  for (NodeId n = 0; n < g_.nodes.size(); ++n) {
    try {
      node(n);
    } catch (Error& e) {
      if (e.code != Code::unsupported) throw;
      if (e.origin.empty() && g_.nodes[n].origin < g_.origins.size()) e.at(g_.origins[g_.nodes[n].origin].text());
      if (e.remedy.empty()) e.fix("change the model there, or leave the operator to PyTorch (torch_executed_ops)");
      throw;
    }
  }
  if (out_.missing.size() > 0) return std::move(out_);
  if (!c_.is_prepare) copy_outputs();
  const size_t computed = out_.steps.size();
  for (size_t i = 0; c_.is_prepare && i < g_.outputs.size(); ++i) {
    if (c_.derived[i].has_packing_step()) pack(i);
  }
  pack_early(computed);
  if (out_.missing.size() == 0) out_.missing.copied = conflicts();
  if (out_.missing.size() == 0) reuse_operands(), join_steps();
  return std::move(out_);
}

// Moves each packing step (the steps from `first` on) to just after the last step that writes its input. Then few such values are in memory at
// a time, rather than all the model's weights twice.
void Scheduler::pack_early(size_t first) {
  auto memory = [&](uint32_t buffer) {
    const PlannedBuffer& b = out_.buffers.list[buffer];
    return std::pair(b.kind, b.kind == plan::Buffer::Kind::arena ? buffer : b.index);
  };
  std::map<decltype(memory(0)), size_t> behind;  // steps up to and including the last one that writes this memory
  for (size_t i = 0; i < first; ++i) {
    const ScheduledStep& s = out_.steps[i];
    for (size_t o = s.operands.size() - s.writes; o < s.operands.size(); ++o) behind[memory(s.operands[o].buffer)] = i + 1;
  }
  std::vector<std::vector<size_t>> packings(first + 1);
  for (size_t i = first; i < out_.steps.size(); ++i) {
    const ScheduledStep& s = out_.steps[i];
    size_t after = 0;
    for (size_t o = 0; o + s.writes < s.operands.size(); ++o) {
      if (auto found = behind.find(memory(s.operands[o].buffer)); found != behind.end()) after = std::max(after, found->second);
    }
    packings[after].push_back(i);
  }
  std::vector<ScheduledStep> ordered;
  for (size_t i = 0; i <= first; ++i) {
    for (size_t p : packings[i]) ordered.push_back(std::move(out_.steps[p]));
    if (i < first) ordered.push_back(std::move(out_.steps[i]));
  }
  out_.steps = std::move(ordered);
}

void Scheduler::need(ValueId v) {
  if (!s_.stored[v]) {
    out_.missing.stored.insert(v);
    return;
  }
  if (s_.required.alone.contains(v)) fail(Code::internal, "value {} ({}) is stored, but has no place", v, name_of(g_.producer(v).op));
  out_.missing.alone.insert(v);
}

Scheduler::Answer Scheduler::ask(backend::Site& site, bool body_may_go, bool image_may_be_copied) const {
  site.symbols = g_.symbols;
  Answer out{c_.backend.offers(site, image_may_be_copied)};
  const auto* gemm = std::get_if<backend::GemmAttributes>(&site.kernel);
  out.best = cheapest(out.offers, body_may_go, gemm != nullptr ? gemm->packed : std::nullopt);
  if (out.best != nullptr && !out.best->takes_body) {
    out.best = nullptr;
    out.obstacle = backend::Obstacle::body;
  } else if (out.best == nullptr) {
    // The last obstacle that can be removed: refusals come in order of how much the implementation can do.
    out.obstacle = backend::Obstacle::types;
    for (const backend::Refusal& r : out.offers.refusals) {
      if (r.obstacle != backend::Obstacle::types && r.obstacle != backend::Obstacle::cost) out.obstacle = r.obstacle;
    }
  }
  return out;
}

namespace {

bool has_known_sizes(const backend::EmittedStep& step) {
  return std::all_of(step.sizes.begin(), step.sizes.end(), [](const Dim& d) { return d.is_constant(); });
}

bool has_equal_code(const backend::EmittedStep& x, const backend::EmittedStep& y) {
  return std::equal(x.code.begin(), x.code.end(), y.code.begin(), y.code.end(),
                    [](const backend::CodeUnit& a, const backend::CodeUnit& b) { return a.name == b.name && a.kernels == b.kernels; });
}

// The offers whose steps are equal but for the kernel: the runtime chooses among them.
std::vector<const backend::Offer*> alternatives_of(const backend::Offers& offers, const backend::Offer& best, const backend::EmittedStep& step, std::vector<std::string>& kernels) {
  std::vector<const backend::Offer*> out;
  if (!step.code.empty() && has_known_sizes(step)) return out;  // its code is for these sizes
  for (const backend::Offer& o : offers.offers) {
    if (&o == &best || !o.emit || !o.takes_body || o.packing != best.packing) continue;
    const backend::EmittedStep other = o.emit();
    if (other.kernel == step.kernel || other.constants != step.constants || other.sizes != step.sizes || !has_equal_code(other, step)) continue;
    kernels.push_back(other.kernel);
    out.push_back(&o);
  }
  return out;
}

// True if both want their operands to have one layout. Whether rows of batches are merged is decided before.
bool want_one_layout(const backend::Offer& x, const backend::Offer& y) {
  using backend::Wish;
  auto layouts = [](std::vector<Wish> all) {
    std::erase_if(all, [](const Wish& w) { return w.kind == Wish::Kind::own_memory || w.kind == Wish::Kind::reused_memory || w == backend::merged_rows; });
    return all;
  };
  return layouts(x.wishes) == layouts(y.wishes);
}

}  // namespace

Scheduler::Decision Scheduler::choose(backend::Site site, bool body_may_go, bool image_may_be_copied) const {
  Answer answer = ask(site, body_may_go, image_may_be_copied);
  const backend::Offer* best = answer.best;
  if (best == nullptr) return {std::nullopt, answer.obstacle};
  if (!best->emit) return {std::nullopt, std::nullopt, best->wishes};
  Decision out{Choice{best->emit(), {name_of(site), best->implementation}}, std::nullopt, best->wishes};
  std::vector<const backend::Offer*> ways{best};  // in which the step may run
  for (const backend::Offer& o : answer.offers.offers) {
    // A rival must not need another storage.
    const bool same = o.takes_body && o.emit && want_one_layout(o, *best) && o.packing == best->packing;
    if (!c_.backend.settings.rivals || c_.backend.forced != nullptr || &o == best || !same || !backend::is_near(o.cost, best->cost)) continue;
    Rival& rival = out.choice->rivals.emplace_back(Rival{o.implementation, o.emit()});
    alternatives_of(answer.offers, o, rival.emitted, rival.alternatives);
    ways.push_back(&o);
  }
  for (const backend::Offer* o : alternatives_of(answer.offers, *best, out.choice->step, out.choice->alternatives)) ways.push_back(o);
  out.choice->own_memory = std::any_of(ways.begin(), ways.end(), [](const backend::Offer* o) { return has(o->wishes, backend::own_memory); });
  out.choice->reuses_memory = std::all_of(ways.begin(), ways.end(), [](const backend::Offer* o) { return has(o->wishes, backend::reused_memory); });
  for (backend::Offer& o : answer.offers.offers) o.emit = nullptr;
  out.choice->considered.offers = std::move(answer.offers.offers);
  out.choice->considered.refusals = std::move(answer.offers.refusals);
  return out;
}

namespace {

// Everything on which the times of a step depend, at the usual sizes. Constants contain the names of printed kernels, which are hashes of their text.
std::string problem_of(const Target& target, std::string_view site, std::span<const Rival* const> ways, const std::vector<BufferView>& operands, std::span<const Symbol> symbols) {
  std::vector<int64_t> usual, numbers;
  for (const Symbol& s : symbols) usual.push_back(s.opt);
  auto add = [&](const std::vector<Dim>& dims) {
    for (const Dim& d : dims) numbers.push_back(d.evaluate(usual));
  };
  std::string all, names, sizes;
  for (const BufferView& p : operands) {
    numbers.push_back(static_cast<int64_t>(p.dtype));
    numbers.push_back(p.layout.offset.evaluate(usual));
    add(p.layout.dims), add(p.layout.strides);
  }
  for (const Rival* way : ways) {
    names += fmt::format("{}{}", names.empty() ? "" : " or ", way->implementation);
    add(way->emitted.sizes);
    all += way->emitted.kernel;
    for (std::byte b : way->emitted.constants) all += static_cast<char>(b);
  }
  for (size_t i = 0; i < std::min<size_t>(ways[0]->emitted.sizes.size(), 3); ++i) {
    sizes += fmt::format("{}{}", i == 0 ? "" : " x ", ways[0]->emitted.sizes[i].evaluate(usual));
  }
  const uint64_t hash = hash64(std::as_bytes(std::span(numbers)), hash64(std::as_bytes(std::span(all))));
  return fmt::format("{} for {}: {}{}{}, {:016x}", site, target.text(), names, sizes.empty() ? "" : " of ", sizes, hash);
}

}  // namespace

// Appends a step. If a timing is known for it, the offer that was the fastest makes the step.
void Scheduler::push(Choice choice, StepOperands operands, uint32_t writes, std::string label, OriginId origin) {
  ScheduledStep step{std::move(choice.step), std::move(operands.views), std::move(operands.roles), writes, std::move(label), origin, std::move(choice.considered)};
  step.alternatives = std::move(choice.alternatives);
  step.own_memory = choice.own_memory;
  step.reuses_memory = choice.reuses_memory;
  step.rivals = std::move(choice.rivals);
  if (!step.rivals.empty()) {
    Rival chosen{step.considered.chosen, std::move(step.emitted), std::move(step.alternatives)};
    std::vector<const Rival*> ways{&chosen};
    for (const Rival& r : step.rivals) ways.push_back(&r);
    step.problem = problem_of(c_.backend.target, step.considered.site, ways, step.operands, g_.symbols);
    for (const Timing& t : c_.backend.known) {
      if (t.problem != step.problem) continue;
      step.considered.timed = true;
      auto fastest = std::find_if(step.rivals.begin(), step.rivals.end(), [&](const Rival& r) { return r.implementation == t.choice; });
      if (fastest != step.rivals.end()) std::swap(chosen, *fastest);
      if (has_known_sizes(chosen.emitted)) chosen.alternatives.clear();  // the runtime's estimates know less than a timing
    }
    step.considered.chosen = chosen.implementation;
    step.emitted = std::move(chosen.emitted);
    step.alternatives = std::move(chosen.alternatives);
  }
  out_.steps.push_back(std::move(step));
}

void Scheduler::node(NodeId n) {
  const Node& node = g_.nodes[n];
  if (node.op == Op::attention) return attention(n);
  if (node.op == Op::external) return external(n);
  if (node.op == Op::concat) {
    if (!s_.stored[node.out[0]]) return;  // read part by part, or not materialised
    for (uint32_t i = 0; i < node.in.size(); ++i) {
      if (!s_.parts_in_place.contains({n, i})) root(s_.part_root.at({n, i}));
    }
    return;
  }
  if (node.op == Op::update) {
    for (uint32_t i = 0; i < 2; ++i) root(s_.part_root.at({n, i}));
    return;
  }
  if (is_leaf(node.op)) return;
  if (is_inlined(node.op) || is_anchor(node.op)) {
    for (ValueId v : node.out) {
      if (s_.stored[v]) root(s_.root_of.at(v));
    }
    return;
  }
  plain(n);
}

bool Scheduler::same_memory(const BufferView& a, const BufferView& b) const {
  const PlannedBuffer &x = out_.buffers.list[a.buffer], &y = out_.buffers.list[b.buffer];
  bool buffer = a.buffer == b.buffer || (x.kind == y.kind && x.kind != plan::Buffer::Kind::arena && x.index == y.index);
  return buffer && a.layout == b.layout;
}

// See backend::Operand::aligned. The runtime aligns all memory but that of bindings, which are the caller's.
bool Scheduler::is_aligned(const BufferView& p) const {
  const Dim bytes = p.layout.offset * Dim(static_cast<int64_t>(size_of(p.dtype)));
  return out_.buffers.list[p.buffer].kind != plan::Buffer::Kind::binding && mod(bytes, backend::Operand::alignment) == Dim(0);
}

std::vector<backend::Operand> Scheduler::described(const StepOperands& operands, const std::optional<Encoding>& encoding) const {
  using Source = backend::Operand::Source;
  std::vector<backend::Operand> out;
  for (size_t k = 0; k < operands.views.size(); ++k) {
    const BufferView& p = operands.views[k];
    backend::Operand& o = out.emplace_back(backend::Operand{operands.roles[k], p.dtype, p.layout});
    if (o.role == kernels::Role::b) o.encoding = encoding;
    const PlannedBuffer& buffer = out_.buffers.list[p.buffer];
    const bool state = buffer.kind == plan::Buffer::Kind::binding && s_.bindings[buffer.index].kind == plan::Binding::Kind::state;
    o.source = is_constant(p) ? Source::constant : state ? Source::state : Source::computed;
    o.aligned = is_aligned(p);
  }
  return out;
}

namespace {

// True if the last axis is strided, and the value is large enough that a copy is worth its step.
bool has_strided_rows(const StridedLayout& x) {
  int64_t n = 1;
  for (const Dim& d : x.dims) n *= d.constant().value_or(schedule_tuning::min_copied_elements);
  return !(x.strides.back() == Dim(1)) && !(x.dims.back() == Dim(1)) && n >= schedule_tuning::min_copied_elements;
}

}  // namespace

void Scheduler::root(uint32_t r) {
  const Root& root = s_.roots[r];
  BufferView target = s_.places[root.target];
  const Node& node = g_.producer(root.target);
  bool itself = root.kind == Root::Kind::value;
  if (root.kind == Root::Kind::update_base) {
    auto have = s_.resolve(root.value);
    if (have && same_memory(*have, target)) return;  // written in place
  }
  if (root.kind == Root::Kind::concat_part) {
    auto axis = static_cast<size_t>(node.attributes.integer("axis"));
    target.layout.offset += target.layout.strides[axis] * root.start;
    target.layout.dims = g_.type(root.value).dims;
  } else if (root.kind == Root::Kind::update_value) {
    target.layout = *through_view(target.layout, node.attributes.map("map"));
  }
  auto written = write_root(s_, root.value, target, itself);
  if (!written) return need(written.missing());
  const size_t before = out_.steps.size();
  if (written->anchor == none_id) {
    fused(std::move(*written), node.origin);
  } else {
    const ValueId base = is_plain_view(g_, root.value) ? s_.base_of(g_.producer(root.value).in[0]) : root.value;
    if (itself && base != root.value && !s_.stored[base] && has_strided_rows(written->operands.back().layout)) written->contiguous = base;
    is_product(g_.producer(written->anchor)) ? gemm(std::move(*written)) : depthwise_conv(std::move(*written));
  }
  if (out_.steps.size() > before) out_.steps.back().results = {{root.value, std::move(target), root.target, s_.places[root.target]}};
}

namespace {

// Removes unused axes of size 1 if a body has more axes than a kernel supports.
void drop_unused_unit_axes(WrittenBody& written) {
  backend::FusedBody& body = written.body;
  auto named = [&](size_t axis) {
    return std::any_of(body.code.begin(), body.code.end(), [&](const backend::Instruction& i) {
      if (i.kind == backend::Instruction::Kind::index) return i.axis == axis;
      return !i.lower.empty() && (!(i.lower[axis] == Dim(0)) || !(written.operands[i.operand].layout.dims[axis] == Dim(1)));
    });
  };
  for (size_t axis = body.outer.size() + body.row.size(); axis-- > 0 && body.outer.size() + body.row.size() > kernels::max_domain_rank;) {
    const bool of_row = axis >= body.outer.size();
    std::vector<Dim>& dims = of_row ? body.row : body.outer;
    const auto at = static_cast<int64_t>(of_row ? axis - body.outer.size() : axis), whole = static_cast<int64_t>(axis);
    if (!(dims[static_cast<size_t>(at)] == Dim(1)) || (of_row && dims.size() == 1) || named(axis)) continue;
    dims.erase(dims.begin() + at);
    for (BufferView& p : written.operands) {
      p.layout.dims.erase(p.layout.dims.begin() + whole);
      p.layout.strides.erase(p.layout.strides.begin() + whole);
    }
    for (backend::Instruction& i : body.code) {
      if (i.kind == backend::Instruction::Kind::index && i.axis > axis) --i.axis;
      if (!i.lower.empty()) i.lower.erase(i.lower.begin() + whole);
      if (!i.step.empty()) i.step.erase(i.step.begin() + whole);
    }
  }
}

}  // namespace

void Scheduler::fused(WrittenBody written, OriginId origin) {
  drop_unused_unit_axes(written);
  auto writes = static_cast<uint32_t>(written.body.stores.size());
  StepOperands operands;
  operands.add_body(written);
  Decision d = choose({backend::Fused{}, &written.body, described(operands)});
  if (!d.choice) fail(Code::unsupported, "no backend has a kernel for a fused body");
  push(std::move(*d.choice), std::move(operands), writes, std::move(written.label), origin);
}

std::string print(const Schedule& schedule, const Graph& g) {
  auto text = [](const backend::Obstacle& o) -> std::string_view {
    constexpr std::string_view kinds[] = {"its types", "", "the body", "cost"};
    return o.kind == backend::Obstacle::Kind::operand ? kernels::name_of(o.operand) : kinds[static_cast<size_t>(o.kind)];
  };
  std::string out;
  for (const ScheduledStep& s : schedule.steps) {
    out += fmt::format("{} | {}", s.emitted.kernel, s.label);
    if (s.origin != none_id && !g.origins[s.origin].file.empty()) out += fmt::format("  # {}:{}", g.origins[s.origin].file, g.origins[s.origin].line);
    out += "\n";
    for (const backend::Offer& o : s.considered.offers) {
      const bool chosen = o.implementation == s.considered.chosen && o.takes_body;
      out +=
          fmt::format("    {} {}: cost {:.6g}{}{}", chosen ? "*" : " ", o.implementation, o.cost, o.takes_body ? "" : ", and a pass for the body", o.packing ? ", B packed" : "");
      for (const std::string_view& what : o.tunables) out += fmt::format("{}{}", &what == o.tunables.data() ? ", can be timed: " : ", ", what);
      out += chosen && s.considered.timed ? ", the fastest when it was timed\n" : "\n";
    }
    for (const backend::Refusal& r : s.considered.refusals) out += fmt::format("    - {}: {} ({})\n", r.implementation, r.reason, text(r.obstacle));
  }
  return out;
}

}  // namespace ingot::compile
