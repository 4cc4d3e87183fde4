#include "runtime/routine.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "plan/regions.h"
#include "runtime/streaming.h"

namespace ingot::runtime {

using plan::Region;

Routine::Routine(const Weights& weights, size_t function) : plan_(weights.plan()), f_(plan_.functions[function]), values_(f_) {
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
  values_.free();
  blocks_.free();
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

void Routine::make_room(uint32_t v, const Run& run) {
  values_.set_dims(v);
  const size_t bytes = values_.bytes_of(v);
  if (!values_.is_binding(v)) return values_.allocate(v, run.allocator);
  if (!is_open(v)) return;  // the caller's memory, of these sizes
  RegionValues::Value& result = values_[v];
  const auto output =
      static_cast<size_t>(std::count_if(f_.bindings.begin(), f_.bindings.begin() + v, [](const plan::Binding& b) { return b.kind == plan::Binding::Kind::output; }));
  if (run.output && result.room == 0) {
    result.data = run.output(output, result.dims);
  } else if (bytes > result.room) {
    throw Error(Code::invalid_input, fmt::format("result \"{}\" needs {} bytes, and the tensor given for it has {}", f_.bindings[v].name, bytes, result.room))
        .fix("give memory for the bounds that ingot_session_resolve tells, or a function that allocates (ingot_session_set_output_memory)");
  }
}

bool Routine::is_true(uint32_t v, const Run& run) const {
  std::byte flag{};
  run.stream.copy(&flag, values_[v].data, 1);
  run.stream.wait();
  return flag != std::byte{0};
}

void Routine::read(const Region::Read& x, const Run& run) {
  int64_t value = 0;
  run.stream.copy(&value, values_[x.value].data, sizeof value);
  run.stream.wait();
  const plan::Symbol& s = f_.symbols[x.symbol];
  const int64_t highest = x.bound == UINT32_MAX ? s.max : std::min(s.max, values_.size(x.bound));
  if (value < s.min || value > highest) {
    Error problem(Code::invalid_input,
                  fmt::format("a size that the model reads from data ({}) is {}, outside {}..{}", s.name, value, s.min, highest == INT64_MAX ? "" : std::to_string(highest)));
    if (x.origin != UINT32_MAX) problem.at(plan_.origins[x.origin].text());
    throw problem.fix("give inputs for which the program's own checks (torch._check) hold, or export it with a wider range");
  }
  values_.set_symbol(x.symbol, value);
}

void Routine::call(const plan::Call& c, Callee& callee, const Run& run) {
  const plan::Function& f = plan_.functions[c.function];
  std::vector<int64_t> symbols(f.symbols.size());
  for (size_t s = 0; s < symbols.size(); ++s) {
    symbols[s] = c.symbols[s] != UINT32_MAX ? values_.size(c.symbols[s]) : f.symbols[s].opt;
    if (symbols[s] < f.symbols[s].min || symbols[s] > f.symbols[s].max) {
      fail(Code::invalid_input, "size {} is {}, outside the range {}..{} the plan was built for", f.symbols[s].name, symbols[s], f.symbols[s].min, f.symbols[s].max);
    }
  }
  std::vector<std::byte*> data;
  for (size_t i = 0; i < c.values.size(); ++i) {
    const uint32_t v = c.values[i];
    if (f.bindings[i].kind == plan::Binding::Kind::output) make_room(v, run);
    if (values_[v].data == nullptr && values_.bytes_of(v) > 0) fail(Code::format, "a tensor between the regions of \"{}\" has no memory", f_.name);
    data.push_back(values_[v].data);
  }
  auto check = [&](size_t i, std::span<const int64_t> dims) {
    const std::vector<int64_t>& given = values_[c.values[i]].dims;
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
    for (uint32_t v : c.values) room.push_back(values_.bytes_of(v));
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
  blocks_.fit(*known, known->streaming != nullptr ? known->streaming->ring_bytes : 0, run.allocator, "a region");
  executor.run(data, blocks_.memory(), run.workers, run.stream, run.copy_stream, run.recording, run.marks);
  if (run.marks) note_times(executor, run.stream, timed_);
}

void Routine::loop(const Region& r, std::vector<Callee>& callees, const Run& run) {
  for (const Region::Carried& c : r.carried) {
    make_room(c.value, run);
    make_room(c.next, run);
    if (values_[c.first].dims != values_[c.value].dims || values_[c.next].dims != values_[c.value].dims)
      fail(Code::format, "a loop of \"{}\" carries tensors of different sizes", f_.name);
    if (const size_t bytes = values_.bytes_of(c.first); bytes > 0) run.stream.copy(values_[c.value].data, values_[c.first].data, bytes);
  }
  auto goes_on = [&](int64_t turn) {
    if (r.count != UINT32_MAX) return turn < values_.size(r.count);
    call(r.calls[0], callees[0], run);
    return is_true(r.condition, run);
  };
  for (int64_t turn = 0; goes_on(turn); ++turn) {
    call(r.calls.back(), callees.back(), run);
    // Swap: the body wrote `next` while it read `value`, or wrote `value` itself.
    for (const Region::Carried& c : r.carried) {
      if (c.next != c.value) values_.swap(c.value, c.next);
    }
  }
}

void Routine::run(std::span<std::byte* const> bindings, std::span<const size_t> room, std::span<const int64_t> symbols, const Run& run) {
  values_.begin(symbols);
  timed_.clear();
  for (uint32_t b = 0; b < bindings.size(); ++b) {
    values_[b].data = bindings[b];
    values_[b].room = room[b];
    values_.set_dims(b);
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
