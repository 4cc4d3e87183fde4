// Runs kernels that are lists of launches: attention, scan, sort, scatter, implicit GEMM. Their folders decide what is launched.
#include "backend/cuda/run/launch.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/ranges.h>

#include "backend/cuda/run/cufft.h"
#include "backend/cuda/run/gpu.h"
#include "backend/cuda/run/hardware.h"

namespace ingot::kernels {

namespace {

using namespace backend::cuda;

// The launches of a step for one set of sizes, in one session.
struct Prepared {
  struct Part {
    std::vector<CudaLaunch> list;
    std::vector<Function> functions;
  } usual, any;
  CudaPlaces places;
  std::shared_ptr<const Transform> transform;  // what the usual launch without a kernel does,
  size_t workspace = 0;                        // and where in scratch its memory is
};

// Encodes a tensor map (128 bytes of kernel parameters).
void encode(const Device& device, const CudaTiles& t, Address address, std::byte* to) {
  Device::Use use(device);
  // Constants of cuda.h.
  enum ElementType : int { two_bytes = 1, four_bytes = 2, tf32 = 11 };
  enum Swizzle : int { rows_of_128_bytes = 3 };
  enum Promotion : int { lines_of_128_bytes = 2 };
  enum Others : int { no_interleave = 0, zeros = 0 };
  alignas(64) std::byte map[hardware::tensor_map_bytes];
  address += static_cast<Address>(t.offset);
  const auto rank = static_cast<unsigned>(t.rank);
  const int type = t.rounded ? tf32 : t.dtype == ir::DType::f32 ? four_bytes : two_bytes;
  if (t.pixels) {
    driver().check(driver().encode_pixels(map, type, rank, address, t.dims.data(), t.strides.data(), t.lower.data(), t.upper.data(), t.box[0], t.box[1], t.steps.data(),
                                          no_interleave, rows_of_128_bytes, lines_of_128_bytes, zeros),
                   "describing {} pixels", fmt::join(t.dims.begin(), t.dims.begin() + t.rank, " x "));
  } else {
    driver().check(
        driver().encode_boxes(map, type, rank, address, t.dims.data(), t.strides.data(), t.box.data(), t.steps.data(), no_interleave, rows_of_128_bytes, lines_of_128_bytes, zeros),
        "describing a tensor of {} x {} x {}", t.dims[2], t.dims[1], t.dims[0]);
  }
  std::memcpy(to, map, sizeof map);
}

CudaMachine machine_of(const Gpu& gpu) { return {gpu.device()->properties().multiprocessors, gpu.device()->properties().sm == 90, &gpu.timed()}; }

}  // namespace

std::vector<Tunable> tunables_of_launches(const Call& call, CudaLaunches (*launches)(const Call&, const CudaMachine&)) {
  const auto& gpu = static_cast<const Gpu&>(*call.backend);
  CudaLaunches made = launches(call, machine_of(gpu));
  if (made.choices.empty()) return {};
  return {{gpu.own_machine(), std::move(made.problem), std::move(made.choices)}};
}

Resolved resolve_launches(const Call& call, CudaLaunches (*launches)(const Call&, const CudaMachine&)) {
  const auto& gpu = static_cast<const Gpu&>(*call.backend);
  CudaLaunches made = launches(call, machine_of(gpu));
  const double nanoseconds = made.nanoseconds;
  if (std::isinf(nanoseconds)) return {0, nullptr, nanoseconds};
  auto out = std::make_shared<Prepared>();
  auto part = [&](std::vector<CudaLaunch>& list) {
    Prepared::Part p;
    for (const CudaLaunch& l : list) p.functions.push_back(l.kernel.empty() ? Function() : gpu.function(l.kernel));
    p.list = std::move(list);
    return p;
  };
  out->usual = part(made.list);
  // The plan has this code only if an operand may be the caller's memory.
  if (std::all_of(made.any.begin(), made.any.end(), [&](const CudaLaunch& l) { return gpu.has_code(l.kernel); })) out->any = part(made.any);
  if (made.transform.count > 0) {
    out->transform = std::make_shared<const Transform>(gpu.device(), made.transform);
    out->workspace = made.reserve(static_cast<int64_t>(out->transform->workspace()));
  }
  const size_t scratch = made.scratch;
  out->places = std::move(made);
  return {scratch, out, nanoseconds};
}

void run_launches(const Call& call) {
  auto& prepared = *static_cast<Prepared*>(const_cast<void*>(call.prepared));  // of this session only
  auto& stream = static_cast<GpuStream&>(*call.stream);
  Prepared::Part& part = prepared.places.fit(call.operands) ? prepared.usual : prepared.any;
  if (part.list.empty() && !prepared.usual.list.empty()) fail(Code::format, "an operand of a step is at an address that is not a multiple of 16, for which the plan has no code");
  for (size_t k = 0; k < part.list.size(); ++k) {
    CudaLaunch& l = part.list[k];
    for (const CudaLaunch::Pointer& p : l.pointers) {
      using Pointer = CudaLaunch::Pointer;
      Address address = p.what == Pointer::status    ? stream.status()
                        : p.what == Pointer::operand ? reinterpret_cast<Address>(call.operands[p.index].data)
                                                     : reinterpret_cast<Address>(call.scratch + p.offset);
      std::memcpy(l.parameters.data() + p.at, &address, sizeof address);
    }
    for (const CudaTiles& t : l.tiles) encode(*stream.device(), t, reinterpret_cast<Address>(t.in_scratch ? call.scratch : call.operands[t.index].data), l.parameters.data() + t.at);
    if (l.kernel.empty()) {
      Address at[2];
      std::memcpy(at, l.parameters.data(), sizeof at);
      prepared.transform->run(at[0], at[1], reinterpret_cast<Address>(call.scratch + prepared.workspace), stream.handle());
      if (stream.recorded_by_caller()) stream.keep(prepared.transform);
      continue;
    }
    const bool overlaps = stream.may_overlap() && l.overlaps;
    part.functions[k].launch({l.blocks, l.threads, l.shared, overlaps, l.work_tiles, l.blocks_y, l.blocks_z, l.threads_y, l.threads_z}, l.parameters, stream.handle(), l.places);
  }
}

}  // namespace ingot::kernels
