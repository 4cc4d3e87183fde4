// Many short lines, or very many strided ones: one thread each. Strided lines: a block for 32 side by side. Otherwise blocks; if they would be too few, lines are split into chunks, whose totals are computed first.
#include "backend/cuda/kernels/scan/run/scan_launches.h"

#include <algorithm>
#include <cstddef>

#include "backend/cuda/kernels/scan/run/scan_args.h"
#include "backend/cuda/kernels/scan/run/tuning.h"
#include "backend/cuda/run/launch.h"
#include "kernels/scan/run/scan_checks.h"

namespace ingot::kernels {

CudaLaunches scan_cuda_launches(const Call& call, const CudaMachine& machine) {
  check_scan(call);
  const auto& args = *static_cast<const ScanArgs*>(call.constants);
  const TensorRef &in = call.operands[0], &out = call.operands[1];
  JoinedAxes lines(2);
  for (int d = 0; d < in.rank; ++d) {
    if (d != args.axis) lines.add(in.dims[d], {in.strides[d], out.strides[d]});
  }
  ScanCudaParameters p{};
  p.lines = lines.points;
  p.length = in.rank == 0 ? 1 : in.dims[args.axis];
  p.in_step = in.rank == 0 ? 0 : in.strides[args.axis];
  p.out_step = in.rank == 0 ? 0 : out.strides[args.axis];
  p.axes = lines.get<2>();
  CudaLaunches list;
  if (p.lines == 0 || p.length == 0) return list;
  std::string name = scan_cuda_name(args.kind, in.dtype);
  using Pointer = CudaLaunch::Pointer;
  std::vector<Pointer> pointers = {{Pointer::operand, offsetof(ScanCudaParameters, in), 0}, {Pointer::operand, offsetof(ScanCudaParameters, out), 1}};
  // If lines are adjacent in memory, threads of adjacent lines load adjacent elements.
  using namespace scan_tuning;
  constexpr int64_t parts = scan_tuning::column_threads / 32;
  const int64_t blocks = divided_up(p.lines, 32);
  p.chunk = divided_up(p.length, parts);
  const bool adjacent_lines = p.in_step != 1 && p.lines >= min_columns && p.lines < max_columns;
  if (adjacent_lines && p.length > max_thread_line && (p.chunk <= longest_part || blocks >= machine.multiprocessors)) {
    list.add(name + "_columns", blocks, scan_tuning::column_threads, p, pointers);
    list.overlap();
    return list;
  }
  if (p.lines >= min_lines && (p.length <= max_thread_line || p.in_step != 1)) {
    list.add(name + "_lines", divided_up(p.lines, scan_tuning::threads), scan_tuning::threads, p, pointers);
    list.overlap();
    return list;
  }
  int64_t wanted = divided_up(int64_t{4} * machine.multiprocessors, p.lines);
  p.chunk = divided_up(divided_up(p.length, std::max<int64_t>(1, wanted)), scan_tuning::tile) * scan_tuning::tile;
  p.chunks = divided_up(p.length, p.chunk);
  if (p.chunks > 1) {
    pointers.push_back({Pointer::scratch, offsetof(ScanCudaParameters, totals), 0, list.reserve(8 * p.lines * p.chunks)});
    list.add(name + "_totals", p.lines * p.chunks, scan_tuning::threads, p, pointers);
  }
  list.add(name + "_blocks", p.lines * p.chunks, scan_tuning::threads, p, pointers);
  list.overlap();
  return list;
}

std::span<const RunKernel> scan_cuda_kernels() {
  static constexpr RunKernel list[] = {{"scan", load_scan, resolved<scan_cuda_launches>, run_launches}};
  return list;
}

}  // namespace ingot::kernels
