// Runs a plan that may be anything, with little memory and for a short time.
#pragma once
#include <algorithm>
#include <new>
#include <vector>

#include "base/buffer.h"
#include "base/parallel.h"
#include "plan/plan.h"
#include "runtime/program.h"

namespace ingot::fuzz {

// A plan may ask for any amount of memory; what it gets is little, so that inputs stay fast.
class Little final : public Allocator {
  void* allocate(size_t bytes) override {
    if (bytes > (size_t{16} << 20)) throw std::bad_alloc();
    return system_allocator().allocate(bytes);
  }
  void release(void* memory, size_t bytes) noexcept override { system_allocator().release(memory, bytes); }
};
inline Little little;

// A plan may also ask for years of work: broadcasting makes it from nothing. Too much of it is not run.
inline bool is_short(const runtime::Resolved& r) {
  double work = 0;
  for (const runtime::Resolved::Step& s : r.steps) {
    double most = 1, sizes = 1;
    for (const backend::TensorRef& t : s.operands) {
      double n = 1;
      for (int d = 0; d < t.rank; ++d) n *= static_cast<double>(t.dims[d]);
      most = std::max(most, n);
    }
    for (int64_t n : s.sizes) sizes *= std::max(static_cast<double>(n), 1.0);
    work += std::max(most, sizes);
  }
  return work < 1e7;
}

inline void run(const plan::Plan& plan, const plan::Function& f, const plan::Program& program, const runtime::Memory& memory) {
  runtime::LoadedFunction loaded = runtime::load_function(f, program);
  std::vector<int64_t> symbols;
  for (const plan::Symbol& s : f.symbols) symbols.push_back(s.opt);
  auto resolved = runtime::resolve(loaded, plan, memory, symbols, inline_workers());
  if (!is_short(*resolved)) return;
  MemoryBlock arena(resolved->arena_bytes, little), scratch(resolved->scratch_bytes + 64, little);
  std::vector<MemoryBlock> bindings;
  std::vector<std::byte*> pointers;
  for (size_t b = 0; b < f.bindings.size(); ++b) {
    size_t bytes = ir::size_of(f.bindings[b].dtype);
    for (int64_t d : resolved->binding_dims[b]) bytes *= static_cast<size_t>(d);
    bindings.emplace_back(bytes, little);
    std::fill_n(bindings.back().data(), bytes, std::byte{1});
    pointers.push_back(bindings.back().data());
  }
  runtime::run(loaded, *resolved, pointers, arena.data(), scratch.data(), inline_workers(), *backend::cpu_backend().lane());
}

// One target's prepare function and all functions, on the CPU whatever device they say they are for. As runtime::Weights does, with every derived
// weight in memory of its own.
inline void run(const plan::Plan& plan, size_t t) {
  runtime::Memory memory;
  std::vector<MemoryBlock> owned;
  for (const plan::Weight& w : plan.weights) {
    memory.weights.push_back(w.data);
    memory.weight_bytes.push_back(w.bytes);
  }
  const plan::Target& target = plan.targets[t];
  for (const plan::Derived& d : target.derived) {
    owned.emplace_back(d.bytes, little);
    memory.derived.push_back(owned.back().data());
    memory.derived_bytes.push_back(d.bytes);
  }
  run(plan, target.prepare, target.prepare.programs[0], memory);
  for (const plan::Function& f : plan.functions) run(plan, f, f.programs[t], memory);
}

}  // namespace ingot::fuzz
