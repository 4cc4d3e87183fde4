// Scans of blocks in double or int64.
#pragma once
#include <cstdint>

#include "backend/cpu/kernels/fused/run/block_ops.h"
#include "backend/cpu/kernels/scan/run/tuning.h"
#include "kernels/scan/run/scan_args.h"

namespace ingot::kernels {

// Lines that go together, because each step of one line waits for the step before. Strides in elements.
struct ScanBlock {
  static constexpr int64_t max_lines = scan_cpu_tuning::max_lines;
  void* to;
  const void* from;
  int64_t to_step, from_step, to_line, from_line;  // along a line, and from line to line
  int64_t length, lines;
};

// Elements are float, double or int64_t (class f32, f64 or i64). `totals` has a double or int64_t for each line: the sum so far and the like, if not `first`.
void scan_block(ScanArgs::Kind, Class, const ScanBlock&, void* totals, bool first);
// The same for elements of bfloat16, with totals in double.
void scan_bf16(ScanArgs::Kind, const ScanBlock&, void* totals, bool first);

}  // namespace ingot::kernels
