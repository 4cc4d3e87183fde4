// Measures the machine's peak rates, to compare speeds with.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <vector>

#include "backend/cpu/kernels/fused/run/block_ops.h"
#include "backend/cpu/kernels/matmul/run/tile.h"
#include "backend/cpu/kernels/matmul/run/tuning.h"
#include "backend/cpu/run/isa.h"
#include "backend/run/device.h"
#include "base/buffer.h"
#include "base/machine.h"

namespace ingot::backend {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

const kernels::TileOps::Tiles& tiles_of_bf16(const kernels::TileOps& ops) {
  return ops.bf16_matrix.tile != nullptr ? ops.bf16_matrix : ops.bf16_dots.tile != nullptr ? ops.bf16_dots : ops.bf16;
}

// The shortest of several runs for so many seconds.
double fastest(double seconds, FunctionRef<void()> work) {
  double best = std::numeric_limits<double>::infinity();
  work();
  for (const auto start = Clock::now(); seconds_since(start) < seconds;) {
    const auto t = Clock::now();
    work();
    best = std::min(best, seconds_since(t));
  }
  return best;
}

// Nanoseconds of a cycle: of additions that wait for one another.
double cycle(double seconds) {
#if defined(__x86_64__)
  using kernels::matmul::tuning::additions;
  return nanoseconds_of_second / static_cast<double>(additions) * fastest(seconds, [] {
           int64_t sum = 0;
           for (int64_t i = 0; i < additions; i += 10) {
             asm volatile("add $1, %0; add $1, %0; add $1, %0; add $1, %0; add $1, %0; add $1, %0; add $1, %0; add $1, %0; add $1, %0; add $1, %0" : "+r"(sum));
           }
         });
#else
  static_cast<void>(seconds);
  return 1 / cpu::machine().clock;
#endif
}

// Nanoseconds until all workers are at work: each waits for the others, but not for one that the system does not let run.
double wake(Workers& workers, double seconds) {
  std::atomic<int> begun = 0;
  return nanoseconds_of_second * fastest(seconds, [&] {
           begun = 0;
           workers.run(workers.count(), [&](int64_t, int) {
             ++begun;
             for (const auto start = Clock::now(); begun < workers.count() && seconds_since(start) < kernels::matmul::tuning::patience;) continue;
           });
         });
}

}  // namespace

Machine measure_machine(Workers& workers, double seconds) {
  Machine m = cpu::machine();
  using namespace kernels::matmul::tuning;
  const double share = seconds * share_of_number;
  const kernels::TileOps& ops = kernels::tile_ops();
  auto products = [&](const kernels::TileOps::Tiles& tiles) {  // a nanosecond
    double done = 0;
    const double time = fastest(share, [&] { done = tiles.multiply_adds(rounds); });
    return done / 2 / (time * nanoseconds_of_second);  // a product and a sum
  };
  m.clock = 1 / cycle(share);
  m.f32 = products(ops.f32);
  m.bf16 = products(tiles_of_bf16(ops));
  m.dots = ops.bf16_dots.tile == nullptr ? 0 : products(ops.bf16_dots);
  // Reads of half of each cache, and of more than the last one.
  const auto size_of = [](int name, int64_t otherwise) {
    const int64_t bytes = ::sysconf(name);
    return bytes > 0 ? bytes : otherwise;
  };
  const int64_t l1 = size_of(_SC_LEVEL1_DCACHE_SIZE, usual_l1), l2 = size_of(_SC_LEVEL2_CACHE_SIZE, usual_l2), l3 = size_of(_SC_LEVEL3_CACHE_SIZE, usual_l3);
  const MemoryBlock memory(static_cast<size_t>(memory_bytes), system_allocator());
  auto* floats = reinterpret_cast<float*>(memory.data());
  std::fill(floats, floats + memory_bytes / 4, 1.0f);
  volatile float sink = 0;
  auto rate = [&](int64_t bytes) {  // bytes a nanosecond
    const int64_t count = std::clamp(bytes, summed_elements * 4, memory_bytes) / 4 / summed_elements * summed_elements, repeats = std::max<int64_t>(1, (1 << 20) / (count * 4));
    const double time = fastest(share, [&] {
      for (int64_t r = 0; r < repeats; ++r) {
        for (int64_t i = 0; i < count; i += summed_elements) sink = kernels::block_ops().sum_f32(floats + i, summed_elements);
      }
    });
    return static_cast<double>(count * 4 * repeats) / (time * nanoseconds_of_second);
  };
  m.l1 = rate(l1 / 2);
  m.l2 = rate(l2 / 2);
  m.l3 = rate(std::min(l3 / 2, 8 * l2));
  m.memory = rate(memory_bytes);
  static_cast<void>(sink);
  if (workers.count() > 1) m.wake = wake(workers, share);
  return m;
}

MachineLimits measure_limits(Workers& workers, double seconds) {
  const int64_t count = workers.count();
  using namespace kernels::matmul::tuning;
  // Touched so that it is mapped.
  constexpr int64_t floats = memory_bytes / 4;
  std::vector<MemoryBlock> memory;
  for (int64_t w = 0; w < count; ++w) memory.emplace_back(floats * 4, system_allocator());
  workers.run(count, [&](int64_t w, int) {
    auto* p = reinterpret_cast<float*>(memory[static_cast<size_t>(w)].data());
    for (int64_t i = 0; i < floats; ++i) p[i] = 1;
  });
  const kernels::TileOps& ops = kernels::tile_ops();
  MachineLimits best;
  std::vector<double> done(static_cast<size_t>(count));
  volatile float sink = 0;
  for (auto start = Clock::now(); seconds_since(start) < seconds;) {
    auto flops = [&](const kernels::TileOps::Tiles& tiles, double known) {
      const auto t = Clock::now();
      workers.run(count, [&](int64_t w, int) { done[static_cast<size_t>(w)] = tiles.multiply_adds(rounds_of_limit); });
      double operations = 0;
      for (double d : done) operations += d;
      return std::max(known, operations / seconds_since(t));
    };
    best.flops = flops(ops.f32, best.flops);
    best.bf16_flops = flops(tiles_of_bf16(ops), best.bf16_flops);
    const auto t = Clock::now();
    workers.run(count, [&](int64_t w, int) {
      const auto* p = reinterpret_cast<const float*>(memory[static_cast<size_t>(w)].data());
      constexpr int64_t part = floats / streams;
      double sum = 0;
      for (int64_t i = 0; i < part; i += summed_elements) {
        for (int64_t k = 0; k < streams; ++k) sum += static_cast<double>(kernels::block_ops().sum_f32(p + k * part + i, summed_elements));
      }
      done[static_cast<size_t>(w)] = sum;
    });
    best.bytes_per_second = std::max(best.bytes_per_second, static_cast<double>(count * floats * 4) / seconds_since(t));
    sink = static_cast<float>(done[0]);
  }
  (void)sink;
  return best;
}

}  // namespace ingot::backend
