#include "runtime/routine.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "plan/regions.h"
#include "runtime/streaming.h"

namespace ingot::runtime {

using plan::Region;

namespace {

// Per size: true if it depends on one of these symbols.
std::vector<bool> depends_on(const SizeProgram& sizes, const std::vector<bool>& symbols) {
  using Op = SizeInstruction::Op;
  std::vector<bool> out;
  for (const SizeInstruction& i : sizes.code) out.push_back(i.op == Op::symbol ? symbols[i.a] : i.op != Op::constant && (out[i.a] || out[i.b]));
  return out;
}

}  // namespace

void note_times(const Executor& executor, backend::Stream& stream, std::vector<Timed>& out) {
  const std::vector<int64_t> nanoseconds = stream.nanoseconds();
  const Resolved& r = *executor.last();
  for (size_t n = 0; n < r.steps.size() && n < nanoseconds.size(); ++n) out.push_back({&executor.loaded(), n, nanoseconds[n], bytes_moved(r.steps[n]), r.steps[n].sizes});
}

Routine::Routine(const Weights& weights, size_t function) : plan_(weights.plan()), f_(plan_.functions[function]) {
  std::vector<bool> read(f_.symbols.size(), false), endless = read;
  for (const Region& r : f_.regions) {
    std::vector<Callee>& callees = callees_.emplace_back();
    for (const plan::Call& c : r.calls) {
      Callee& callee = callees.emplace_back();
      if (plan_.functions[c.function].regions.empty()) {
        callee.straight = std::make_unique<Executor>(weights.function(c.function), plan_);
      } else {
        callee.routine = std::make_unique<Routine>(weights, c.function);
      }
    }
    for (const Region::Read& x : r.reads) {
      read[x.symbol] = true;
      endless[x.symbol] = x.bound == UINT32_MAX;
    }
  }
  const std::vector<bool> open = depends_on(f_.sizes, read), unbounded = depends_on(f_.sizes, endless);
  for (const plan::Binding& b : f_.bindings) {
    open_.push_back(std::any_of(b.dims.begin(), b.dims.end(), [&](plan::SizeRef d) { return open[d]; }));
    bounded_.push_back(std::none_of(b.dims.begin(), b.dims.end(), [&](plan::SizeRef d) { return unbounded[d]; }));
  }
  slots_.resize(f_.bindings.size() + f_.values.size());
  sizes_.resize(f_.sizes.code.size());
  place_blocks();
}

// Gives each value the first block that no value with an overlapping life has.
void Routine::place_blocks() {
  struct Life {
    size_t first = SIZE_MAX, last = 0;
  };
  std::vector<Life> lives(slots_.size());
  for (size_t n = 0; n < f_.regions.size(); ++n) {
    const Region& r = f_.regions[n];
    auto use = [&](uint32_t v) {
      if (v != UINT32_MAX) lives[v] = {std::min(lives[v].first, n), std::max(lives[v].last, n)};
    };
    use(r.condition);
    for (const plan::Call& c : r.calls) std::for_each(c.values.begin(), c.values.end(), use);
    for (const Region::Carried& c : r.carried) use(c.first), use(c.value), use(c.next);
    for (const Region::Read& x : r.reads) use(x.value);
  }
  // A loop swaps the two, so both live as long as the longer one.
  for (const Region& r : f_.regions) {
    for (const Region::Carried& c : r.carried) lives[c.next] = {std::min(lives[c.next].first, lives[c.value].first), std::max(lives[c.next].last, lives[c.value].last)};
  }
  for (const Region& r : f_.regions) {
    for (const Region::Carried& c : r.carried) lives[c.value] = lives[c.next];
  }
  std::vector<std::vector<Life>> taken;
  for (size_t v = f_.bindings.size(); v < slots_.size(); ++v) {
    const Life life = lives[v];
    auto free = [&](const std::vector<Life>& block) {
      return std::none_of(block.begin(), block.end(), [&](const Life& l) { return l.first <= life.last && life.first <= l.last; });
    };
    auto block = std::find_if(taken.begin(), taken.end(), free);
    if (block == taken.end()) block = taken.emplace(taken.end());
    block->push_back(life);
    slots_[v].block = static_cast<uint32_t>(block - taken.begin());
  }
  blocks_.resize(taken.size());
}

void Routine::bound(std::vector<int64_t>& symbols) const {
  std::vector<int64_t> sizes(f_.sizes.code.size());
  for (const Region& r : f_.regions) {
    for (const Region::Read& x : r.reads) symbols[x.symbol] = std::max<int64_t>(f_.symbols[x.symbol].min, 1);
  }
  for (const Region& r : f_.regions) {
    for (const Region::Read& x : r.reads) {
      if (x.bound == UINT32_MAX) continue;
      evaluate(f_.sizes, symbols, sizes);
      symbols[x.symbol] = std::clamp(sizes[x.bound], f_.symbols[x.symbol].min, f_.symbols[x.symbol].max);
    }
  }
}

size_t Routine::resolutions() const {
  size_t n = 0;
  for (const auto& region : callees_) {
    for (const Callee& c : region) n += c.straight != nullptr ? c.straight->resolutions() : c.routine->resolutions();
  }
  return n;
}

void Routine::give_back() noexcept {
  for (MemoryBlock& b : blocks_) b = MemoryBlock();
  arena_ = MemoryBlock();
  scratch_ = MemoryBlock();
  ring_ = MemoryBlock();
  for (auto& region : callees_) {
    for (Callee& c : region) {
      if (c.routine != nullptr) c.routine->give_back();
    }
  }
}

void Routine::forget_copies() {
  for (auto& region : callees_) {
    for (Callee& c : region) c.straight != nullptr ? c.straight->forget_copies() : c.routine->forget_copies();
  }
}

ir::DType Routine::dtype_of(uint32_t v) const { return v < f_.bindings.size() ? f_.bindings[v].dtype : f_.values[v - f_.bindings.size()].dtype; }

size_t Routine::bytes_of(uint32_t v) const {
  size_t n = ir::size_of(dtype_of(v));
  for (int64_t d : slots_[v].dims) {
    if (d < 0 || __builtin_mul_overflow(n, static_cast<size_t>(d), &n)) fail(Code::invalid_input, "a tensor between the regions of \"{}\" is too large", f_.name);
  }
  return n;
}

void Routine::evaluate_sizes() { evaluate(f_.sizes, symbols_, sizes_); }

void Routine::set_dims(uint32_t v) {
  const std::vector<plan::SizeRef>& dims = v < f_.bindings.size() ? f_.bindings[v].dims : f_.values[v - f_.bindings.size()].dims;
  slots_[v].dims.clear();
  for (plan::SizeRef d : dims) slots_[v].dims.push_back(sizes_[d]);
}

void Routine::make_room(uint32_t v, const Run& run) {
  Slot& slot = slots_[v];
  set_dims(v);
  const size_t bytes = bytes_of(v);
  if (v < f_.bindings.size()) {
    if (!open_[v]) return;  // the caller's memory, of these sizes
    const auto output =
        static_cast<size_t>(std::count_if(f_.bindings.begin(), f_.bindings.begin() + v, [](const plan::Binding& b) { return b.kind == plan::Binding::Kind::output; }));
    if (run.output && slot.room == 0) {
      slot.data = run.output(output, slot.dims);
    } else if (bytes > slot.room) {
      throw Error(Code::invalid_input, fmt::format("result \"{}\" needs {} bytes, and the tensor given for it has {}", f_.bindings[v].name, bytes, slot.room))
          .fix("give memory for the bounds that ingot_session_resolve tells, or a function that allocates (ingot_session_set_output_memory)");
    }
    return;
  }
  MemoryBlock& block = blocks_[slot.block];
  if (block.size() < bytes) block = reserve(bytes, run.allocator, "a tensor between regions");
  slot.data = block.data();
}

bool Routine::is_true(uint32_t v, const Run& run) const {
  std::byte flag{};
  run.stream.copy(&flag, slots_[v].data, 1);
  run.stream.wait();
  return flag != std::byte{0};
}

void Routine::read(const Region::Read& x, const Run& run) {
  int64_t value = 0;
  run.stream.copy(&value, slots_[x.value].data, sizeof value);
  run.stream.wait();
  const plan::Symbol& s = f_.symbols[x.symbol];
  const int64_t most = x.bound == UINT32_MAX ? s.max : std::min(s.max, sizes_[x.bound]);
  if (value < s.min || value > most) {
    Error problem(Code::invalid_input,
                  fmt::format("a size that the model reads from data ({}) is {}, outside {}..{}", s.name, value, s.min, most == INT64_MAX ? "" : std::to_string(most)));
    if (x.origin != UINT32_MAX) problem.at(plan_.origins[x.origin].text());
    throw problem.fix("give inputs for which the program's own checks (torch._check) hold, or export it with a wider range");
  }
  symbols_[x.symbol] = value;
  evaluate_sizes();
}

void Routine::call(const plan::Call& c, Callee& callee, const Run& run) {
  const plan::Function& f = plan_.functions[c.function];
  std::vector<int64_t> symbols(f.symbols.size());
  for (size_t s = 0; s < symbols.size(); ++s) {
    symbols[s] = c.symbols[s] != UINT32_MAX ? sizes_[c.symbols[s]] : f.symbols[s].opt;
    if (symbols[s] < f.symbols[s].min || symbols[s] > f.symbols[s].max) {
      fail(Code::invalid_input, "size {} is {}, outside the range {}..{} the plan was built for", f.symbols[s].name, symbols[s], f.symbols[s].min, f.symbols[s].max);
    }
  }
  std::vector<std::byte*> data;
  for (size_t i = 0; i < c.values.size(); ++i) {
    const uint32_t v = c.values[i];
    if (f.bindings[i].kind == plan::Binding::Kind::output) make_room(v, run);
    if (slots_[v].data == nullptr && bytes_of(v) > 0) fail(Code::format, "a tensor between the regions of \"{}\" has no memory", f_.name);
    data.push_back(slots_[v].data);
  }
  auto check = [&](size_t i, std::span<const int64_t> dims) {
    const std::vector<int64_t>& given = slots_[c.values[i]].dims;
    if (!std::equal(given.begin(), given.end(), dims.begin(), dims.end()))
      fail(Code::format, "\"{}\" and \"{}\" disagree on the sizes of \"{}\"", f_.name, f.name, f.bindings[i].name);
  };
  if (callee.routine != nullptr) {
    callee.routine->bound(symbols);
    std::vector<int64_t> sizes(f.sizes.code.size());
    evaluate(f.sizes, symbols, sizes);
    for (size_t i = 0; i < c.values.size(); ++i) {
      std::vector<int64_t> dims;
      for (plan::SizeRef d : f.bindings[i].dims) dims.push_back(sizes[d]);
      if (!callee.routine->is_open(i)) check(i, dims);
    }
    std::vector<size_t> room;
    for (uint32_t v : c.values) room.push_back(bytes_of(v));
    Run inner{run.memory, run.workers, run.stream, run.allocator, run.copy_stream, {}, run.recording, run.marks};
    callee.routine->run(data, room, symbols, inner);
    for (size_t i = 0; i < c.values.size(); ++i) {
      if (callee.routine->is_open(i)) check(i, callee.routine->dims(i));
    }
    if (run.marks) timed_.insert(timed_.end(), callee.routine->timed_.begin(), callee.routine->timed_.end());
    return;
  }
  Executor& executor = *callee.straight;
  const Resolved* known = executor.find(symbols, run.memory);
  if (known == nullptr) known = &executor.resolve(symbols, run.memory, run.workers, run.stream);
  for (size_t i = 0; i < c.values.size(); ++i) check(i, known->binding_dims[i]);
  if (arena_.size() < known->arena_bytes) arena_ = reserve(known->arena_bytes, run.allocator, "the arena of a region");
  if (scratch_.size() < known->scratch_bytes + 64) scratch_ = reserve(known->scratch_bytes + 64, run.allocator, "the scratch memory of a region");
  const size_t ring = known->streaming != nullptr ? known->streaming->ring_bytes : 0;
  if (ring_.size() != ring) ring_ = MemoryBlock(), ring_ = reserve(ring, run.allocator, "the ring for streamed weights");
  executor.run(data, {arena_.data(), scratch_.data(), ring_.data()}, run.workers, run.stream, run.copy_stream, run.recording, run.marks);
  if (run.marks) note_times(executor, run.stream, timed_);
}

void Routine::loop(const Region& r, std::vector<Callee>& callees, const Run& run) {
  for (const Region::Carried& c : r.carried) {
    make_room(c.value, run);
    make_room(c.next, run);
    if (slots_[c.first].dims != slots_[c.value].dims || slots_[c.next].dims != slots_[c.value].dims)
      fail(Code::format, "a loop of \"{}\" carries tensors of different sizes", f_.name);
    if (const size_t bytes = bytes_of(c.first); bytes > 0) run.stream.copy(slots_[c.value].data, slots_[c.first].data, bytes);
  }
  auto goes_on = [&](int64_t turn) {
    if (r.count != UINT32_MAX) return turn < sizes_[r.count];
    call(r.calls[0], callees[0], run);
    return is_true(r.condition, run);
  };
  for (int64_t turn = 0; goes_on(turn); ++turn) {
    call(r.calls.back(), callees.back(), run);
    // Swap: the body wrote `next` while it read `value`, or wrote `value` itself.
    for (const Region::Carried& c : r.carried) {
      if (c.next == c.value) continue;
      Slot &value = slots_[c.value], &next = slots_[c.next];
      std::swap(blocks_[value.block], blocks_[next.block]);
      std::swap(value.data, next.data);
    }
  }
}

void Routine::run(std::span<std::byte* const> bindings, std::span<const size_t> room, std::span<const int64_t> symbols, const Run& run) {
  symbols_.assign(symbols.begin(), symbols.end());
  evaluate_sizes();
  timed_.clear();
  for (uint32_t b = 0; b < bindings.size(); ++b) {
    slots_[b].data = bindings[b];
    slots_[b].room = room[b];
    set_dims(b);
  }
  for (size_t n = 0; n < f_.regions.size(); ++n) {
    const Region& r = f_.regions[n];
    switch (r.kind) {
      case Region::Kind::straight:
        if (!r.calls.empty()) call(r.calls[0], callees_[n][0], run);
        break;
      case Region::Kind::branch: {
        const size_t taken = is_true(r.condition, run) ? 0 : 1;
        call(r.calls[taken], callees_[n][taken], run);
        break;
      }
      case Region::Kind::loop: loop(r, callees_[n], run); break;
    }
    for (const Region::Read& x : r.reads) read(x, run);
  }
}

}  // namespace ingot::runtime
