// Scans on the CPU. Floats run in double, as in ATen; integers wrap.
#include <algorithm>

#include "backend/cpu/kernels/scan/run/block_scan.h"
#include "kernels/run/elements.h"
#include "kernels/scan/run/scan_checks.h"

namespace ingot::kernels {

namespace {

using ir::DType;

Resolved resolve(const Call& call) {
  check_scan(call);
  return {};
}

Class scanned_as(DType t) { return ir::is_float(t) ? t == DType::f64 ? Class::f64 : Class::f32 : Class::i64; }

// Elements of other types than blocks have, some steps at a time.
void scan_converted(ScanArgs::Kind kind, DType type, const ScanBlock& b, void* totals) {
  constexpr int64_t elements = scan_cpu_tuning::converted_elements;
  alignas(64) int64_t block[elements];  // or floats
  const BlockOps& ops = block_ops();
  const Class c = scanned_as(type);
  // Bytes of bools are 0 and 1.
  if (type == DType::b8) type = DType::u8;
  alignas(64) std::byte narrow[elements * 8];  // integers as they are in memory
  const int64_t steps = elements / b.lines, memory = static_cast<int64_t>(ir::size_of(type)), own = c == Class::f32 ? 4 : 8;
  const bool along = b.from_step == 1 || b.from_line != 1;  // whole lines are loaded; else all lines at one step
  for (int64_t begin = 0; begin < b.length; begin += steps) {
    const int64_t n = std::min(steps, b.length - begin);
    const ScanBlock here{block, block, along ? 1 : b.lines, along ? 1 : b.lines, along ? n : 1, along ? n : 1, n, b.lines};
    auto each = [&](auto fn) {  // of what is contiguous in the block: its place there, and along the lines
      if (along) {
        for (int64_t l = 0; l < b.lines; ++l) fn(reinterpret_cast<std::byte*>(block) + l * n * own, begin, l, n);
      } else {
        for (int64_t i = 0; i < n; ++i) fn(reinterpret_cast<std::byte*>(block) + i * b.lines * own, begin + i, 0, b.lines);
      }
    };
    each([&](std::byte* there, int64_t step, int64_t line, int64_t count) {
      const std::byte* from = static_cast<const std::byte*>(b.from) + (step * b.from_step + line * b.from_line) * memory;
      const int64_t step_between = along ? b.from_step : b.from_line;
      c == Class::i64 ? load_i64(type, reinterpret_cast<int64_t*>(there), from, step_between, count) : ops.load(type, there, from, step_between, count);
    });
    scan_block(kind, c, here, totals, begin == 0);
    each([&](std::byte* there, int64_t step, int64_t line, int64_t count) {
      if (c == Class::i64) ops.cast(c, type, narrow, {there, false}, count);
      ops.store(type, static_cast<std::byte*>(b.to) + (step * b.to_step + line * b.to_line) * memory, along ? b.to_step : b.to_line,
                {c == Class::i64 ? static_cast<void*>(narrow) : there, false}, count);
    });
  }
}

void run(const Call& call) {
  const auto& args = *static_cast<const ScanArgs*>(call.constants);
  const TensorRef &in = call.operands[0], &out = call.operands[1];
  if (numel(in) == 0) return;
  const int axis = args.axis;
  auto kind = args.kind;
  if (in.dtype == DType::b8 && kind == ScanArgs::Kind::sum) kind = ScanArgs::Kind::max;
  // Lines along the innermost other axis go together.
  const int across = in.rank < 2 ? -1 : axis + 1 == in.rank ? in.rank - 2 : in.rank - 1;
  const int64_t lines = across < 0 ? 1 : in.dims[across];
  ScanBlock all{nullptr, nullptr, 0, 0, 0, 0, in.rank == 0 ? 1 : in.dims[axis], 0};
  if (in.rank > 0) all.from_step = in.strides[axis], all.to_step = out.strides[axis];
  if (across >= 0) all.from_line = in.strides[across], all.to_line = out.strides[across];
  // Enough groups for all threads.
  const int64_t outer = numel(in) / all.length / lines, wanted = scan_cpu_tuning::tasks_of_worker * call.workers->count();
  const int64_t group = std::clamp((lines * outer / wanted + scan_cpu_tuning::least_lines - 1) / scan_cpu_tuning::least_lines * scan_cpu_tuning::least_lines,
                                   scan_cpu_tuning::least_lines, ScanBlock::max_lines),
                groups = (lines + group - 1) / group;
  const int64_t units = outer * groups, tasks = numel(in) < scan_cpu_tuning::min_divided ? 1 : std::min(units, wanted);
  const bool plain = in.dtype == DType::f32 || in.dtype == DType::f64 || in.dtype == DType::i64;
  call.workers->run(tasks, [&](int64_t task, int) {
    int64_t totals[ScanBlock::max_lines];  // or doubles
    for (int64_t unit = units * task / tasks; unit < units * (task + 1) / tasks; ++unit) {
      int64_t rest = unit / groups;
      const int64_t first = unit % groups * group;
      int64_t from = first * all.from_line, to = first * all.to_line;
      for (int d = in.rank; d-- > 0;) {
        if (d == axis || d == across) continue;
        from += rest % in.dims[d] * in.strides[d];
        to += rest % in.dims[d] * out.strides[d];
        rest /= in.dims[d];
      }
      ScanBlock b = all;
      b.from = element(in, from);
      b.to = element(out, to);
      b.lines = std::min(group, lines - first);
      if (in.dtype == DType::bf16) {
        scan_bf16(kind, b, totals, true);
        continue;
      }
      plain ? scan_block(kind, scanned_as(in.dtype), b, totals, true) : scan_converted(kind, in.dtype, b, totals);
    }
  });
}

}  // namespace

std::span<const RunKernel> scan_cpu_kernels() {
  static constexpr RunKernel list[] = {{"scan", load_scan, resolve, run}};
  return list;
}

}  // namespace ingot::kernels
