// Measures the machine's peak rates, to compare speeds with.
#include <chrono>
#include <vector>

#include "backend/cpu/kernels/fused/run/block_ops.h"
#include "backend/cpu/kernels/matmul/run/tile.h"
#include "backend/run/device.h"
#include "base/buffer.h"

namespace ingot::backend {

MachineLimits measure_limits(Workers& workers, double seconds) {
  using Clock = std::chrono::steady_clock;
  auto since = [](Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); };
  const int64_t count = workers.count();
  // Larger than any last-level cache, and touched so that it is mapped.
  constexpr int64_t floats = int64_t{64} << 20;
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
  for (auto start = Clock::now(); since(start) < seconds;) {
    auto flops = [&](const kernels::TileOps::Tiles& tiles, double known) {
      const auto t = Clock::now();
      workers.run(count, [&](int64_t w, int) { done[static_cast<size_t>(w)] = tiles.multiply_adds(1000000); });
      double operations = 0;
      for (double d : done) operations += d;
      return std::max(known, operations / since(t));
    };
    best.flops = flops(ops.f32, best.flops);
    best.bf16_flops = flops(ops.bf16_matrix.tile != nullptr ? ops.bf16_matrix : ops.bf16_dots.tile != nullptr ? ops.bf16_dots : ops.bf16, best.bf16_flops);
    const auto t = Clock::now();
    workers.run(count, [&](int64_t w, int) {
      const auto* p = reinterpret_cast<const float*>(memory[static_cast<size_t>(w)].data());
      // Several streams at a time: a single prefetcher does not saturate the memory.
      constexpr int64_t places = 4, part = floats / places, chunk = 1024;
      double sum = 0;
      for (int64_t i = 0; i < part; i += chunk) {
        for (int64_t k = 0; k < places; ++k) sum += static_cast<double>(kernels::block_ops().sum_f32(p + k * part + i, chunk));
      }
      done[static_cast<size_t>(w)] = sum;
    });
    best.bytes_per_second = std::max(best.bytes_per_second, static_cast<double>(count * floats * 4) / since(t));
    sink = static_cast<float>(done[0]);
  }
  (void)sink;
  return best;
}

}  // namespace ingot::backend
