// Runs a plan that may be anything, with little memory and for a short time.
#pragma once
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/parallel.h"
#include "plan/plan.h"
#include "runtime/program.h"
#include "runtime/session.h"

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
inline bool is_short(const runtime::LoadedFunction& f, const runtime::Resolved& r) {
  double work = 0;
  for (size_t i = 0; i < r.steps.size(); ++i) {
    const runtime::Resolved::Step& s = r.steps[i];
    double most = 1, sizes = 1;
    for (const backend::TensorRef& t : s.operands) {
      double n = 1;
      for (int d = 0; d < t.rank; ++d) n *= static_cast<double>(t.dims[d]);
      most = std::max(most, n);
    }
    // M and K of a convolution are there again as the extents of its map.
    const bool twice = std::string_view(f.steps[i].kernel->name).starts_with("conv_");
    for (size_t k = 0; k < s.sizes.size(); ++k) sizes *= twice && (k == 0 || k == 2) ? 1 : std::max(static_cast<double>(s.sizes[k]), 1.0);
    work += std::max(most, sizes);
  }
  return work < 1e7;
}

// Ones: integers may be indices, which are mostly inside of what they index.
inline void fill(MemoryBlock& block, size_t bytes, ir::DType dtype) {
  const size_t each = ir::is_float(dtype) ? 1 : ir::size_of(dtype);
  std::fill_n(block.data(), bytes, std::byte{0});
  for (size_t i = 0; i < bytes; i += each) block.data()[i] = std::byte{1};
}

inline void run(const plan::Plan& plan, const plan::Function& f, const plan::Program& program, const runtime::Memory& memory) {
  runtime::LoadedFunction loaded = runtime::load_function(plan, f, program);
  std::vector<int64_t> symbols;
  for (const plan::Symbol& s : f.symbols) symbols.push_back(s.opt);
  auto resolved = runtime::resolve(loaded, plan, memory, symbols, inline_workers());
  if (!is_short(loaded, *resolved)) return;
  MemoryBlock arena(resolved->arena_bytes, little), scratch(resolved->scratch_bytes + 64, little);
  std::vector<MemoryBlock> bindings;
  std::vector<std::byte*> pointers;
  for (size_t b = 0; b < f.bindings.size(); ++b) {
    size_t bytes = ir::size_of(f.bindings[b].dtype);
    for (int64_t d : resolved->binding_dims[b]) bytes *= static_cast<size_t>(d);
    bindings.emplace_back(bytes, little);
    fill(bindings.back(), bytes, f.bindings[b].dtype);
    pointers.push_back(bindings.back().data());
  }
  runtime::run(loaded, *resolved, pointers, {arena.data(), scratch.data()}, inline_workers(), *backend::cpu_backend().new_stream());
}

// A function by a session. Loops may never end: they are not run.
inline void run_session(const plan::Plan& plan, size_t function, std::string_view device) {
  for (const plan::Function& f : plan.functions) {
    for (const plan::Region& r : f.regions) {
      if (r.kind == plan::Region::Kind::loop) return;
    }
  }
  auto weights = std::make_shared<runtime::Weights>(std::make_shared<plan::Plan>(plan), 1, little, device);
  runtime::Session session(weights, function, {1}, little);
  const plan::Function& f = plan.functions[function];
  std::vector<int64_t> usual, sizes(f.sizes.code.size());
  for (const plan::Symbol& s : f.symbols) usual.push_back(s.opt);
  evaluate(f.sizes, usual, sizes);
  std::vector<std::vector<int64_t>> dims;
  std::vector<MemoryBlock> memory;
  std::vector<runtime::HostTensor> inputs, outputs;
  auto tensor = [&](const plan::Binding& b, const std::vector<int64_t>& of) {
    size_t bytes = ir::size_of(b.dtype);
    for (int64_t d : of) {
      if (d < 0 || __builtin_mul_overflow(bytes, static_cast<size_t>(d), &bytes)) throw std::bad_alloc();
    }
    memory.emplace_back(bytes, little);
    fill(memory.back(), bytes, b.dtype);
    dims.push_back(of);
    return runtime::HostTensor{memory.back().data(), b.dtype, static_cast<int>(of.size()), nullptr, nullptr};
  };
  auto point = [&](std::vector<runtime::HostTensor>& list, size_t first) {
    for (size_t i = 0; i < list.size(); ++i) list[i].dims = dims[first + i].data();
  };
  for (const plan::Binding& b : f.bindings) {
    std::vector<int64_t> of;
    for (plan::SizeRef d : b.dims) of.push_back(sizes[d]);
    if (b.kind == plan::Binding::Kind::input) inputs.push_back(tensor(b, of));
  }
  point(inputs, 0);
  const std::vector<std::vector<int64_t>> made = session.resolve(inputs);
  for (size_t o = 0; o < made.size(); ++o) outputs.push_back(tensor(f.bindings[inputs.size() + o], made[o]));
  point(inputs, 0);
  point(outputs, inputs.size());
  session.run(inputs, outputs);
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
  const plan::ForTarget& target = plan.targets[t];
  for (const plan::Derived& d : target.derived) {
    owned.emplace_back(d.bytes, little);
    memory.derived.push_back(owned.back().data());
    memory.derived_bytes.push_back(d.bytes);
  }
  run(plan, target.prepare, target.prepare.programs[0], memory);
  for (const plan::Function& f : plan.functions) run(plan, f, f.programs[t], memory);
  for (size_t f = 0; f < plan.functions.size(); ++f) {
    if (!plan.functions[f].regions.empty() && target.target.kind == Target::Kind::cpu) run_session(plan, f, "cpu");
  }
}

// All functions of a plan for GPUs, on the pretend driver (tests/pretend), which computes nothing and counts what a driver need not survive. It gets the
// names of the plan's kernels: a plan whose device code is run is trusted as far as the code itself goes. Does nothing without that driver:
// INGOT_LIBRARY_PATH names its folder.
inline void run_on_pretend_gpu(plan::Plan plan) {
  static auto* const of_driver = [] {
    void* driver = dlopen(std::getenv("INGOT_LIBRARY_PATH") == nullptr ? "" : (std::string(std::getenv("INGOT_LIBRARY_PATH")) + "/libcuda.so.1").c_str(), RTLD_NOW);
    return driver == nullptr ? nullptr : reinterpret_cast<long long (*)(const char*)>(dlsym(driver, "pretend_get"));
  }();
  if (of_driver == nullptr) return;
  for (plan::ForTarget& t : plan.targets) {
    for (plan::DeviceCode& code : t.code) {
      std::string ptx = "\n.version 8.0\n.target sm_90\n";
      for (const std::string& name : code.kernels) ptx += ".entry " + name + "()\n";
      const auto* bytes = reinterpret_cast<const std::byte*>(ptx.c_str());
      code.form = plan::DeviceCode::Form::portable;
      code.image.assign(bytes, bytes + ptx.size() + 1);
    }
  }
  for (size_t f = 0; f < plan.functions.size(); ++f) run_session(plan, f, "cuda");
  if (of_driver("mistakes") != 0) std::abort();
}

}  // namespace ingot::fuzz
