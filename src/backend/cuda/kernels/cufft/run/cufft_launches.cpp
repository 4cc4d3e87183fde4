#include "backend/cuda/kernels/cufft/run/cufft_launches.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <numeric>
#include <optional>

#include "backend/cuda/kernels/fourier/run/fourier_launches.h"
#include "backend/cuda/run/cufft.h"
#include "backend/cuda/run/launch.h"
#include "backend/run/device.h"
#include "base/error.h"
#include "base/own_file.h"
#include "kernels/fourier/run/fourier_checks.h"

namespace ingot::kernels {

namespace {

using Pointer = CudaLaunch::Pointer;
using Parameters = FourierCudaParameters;
using Kind = ir::FourierKind;

// What a transform reads or writes: operands from `first` on, in cuFFT's order.
struct End {
  size_t first;
  bool real, interleaved;
  int64_t numbers;         // of a row, along the last axis
  const char* kernel;      // that copies them to scratch, or from there
  size_t parameter;        // of that kernel: the address in scratch
};

class Launches {
 public:
  Launches(const Call& call, const CufftArgs& args, std::span<const TensorRef> operands, int64_t length)
      : call_(call),
        args_(args),
        operands_(operands),
        rows_(fourier_parameters(operands, length)),
        images_(fourier_parameters(operands, length, static_cast<int>(args.fourier.axes))) {
    for (int64_t i = 0; i < args.fourier.axes - 1; ++i) {
      others_.push_back(operands[0].dims[operands[0].rank - args.fourier.axes + i]);
      rows_.others[2 - (args.fourier.axes - 1) + i] = others_.back();
    }
  }

  CudaLaunches run(const CudaMachine& machine) {
    const Kind kind = args_.fourier.kind;
    if (images_.count == 0) return std::move(list_);
    const int64_t length = rows_.length, half = length / 2 + 1;
    CudaTransform& t = list_.transform;
    t = {args_.inverse, kind == Kind::of_real, kind == Kind::to_real, call_.operands[0].dtype == ir::DType::f64, others_, images_.count, {}, {}};
    t.lengths.push_back(length);
    // cuFFT writes over a half that it reads.
    const Pointer read = end({0, t.of_real, t.of_real || (args_.reads_interleaved && !t.to_real), t.to_real ? half : length, "_join", offsetof(Parameters, to)}, t.from, 0);
    list_.add_bytes({}, 1, 1, std::vector<std::byte>(2 * sizeof rows_.from), {read});
    const size_t transform = list_.list.size() - 1;
    const Pointer written =
        end({args_.fourier.inputs(), t.to_real, t.to_real || args_.writes_interleaved, t.of_real ? half : length, "_split", offsetof(Parameters, from)}, t.to, sizeof rows_.from);
    list_.list[transform].pointers.push_back(written);
    if (!list_.aligned.empty()) {  // an operand may be at any address
      CudaLaunches own = fourier_cuda_launches(call_, machine);
      list_.any = std::move(own.list);
      list_.scratch = std::max(list_.scratch, own.scratch);
    }
    return std::move(list_);
  }

 private:
  // From one row or image of an operand to the next, where there is one distance. `numbers`: of one.
  static int64_t distance(const Parameters& p, int64_t numbers, size_t i) { return p.axes.rank == 0 ? numbers * p.step[i] : p.axes.strides[i][0]; }

  // The numbers of an image from one place along each axis but the first to the next along the axis outside it: what cuFFT calls its embedding. None if the axes are not nested so.
  std::optional<std::vector<int64_t>> embedding(size_t i) const {
    std::vector<int64_t> out{1};
    const TensorRef& t = operands_[i];
    for (int d = t.rank - static_cast<int>(args_.fourier.axes) + 1; d < t.rank; ++d) {
      const int64_t length = t.dims[d], inner = t.strides[d], outer = t.strides[d - 1];
      if (t.dims[d - 1] == 1) {
        out.push_back(length);
      } else if (inner > 0 && outer % inner == 0 && outer / inner >= length) {
        out.push_back(outer / inner);
      } else {
        return std::nullopt;
      }
    }
    return out;
  }

  // True if cuFFT can have it where it is: images have one stride, and so have their rows.
  bool is_direct(const End& e, CudaTransform::Side& side) const {
    const int64_t parts = e.real ? 1 : 2, numbers = numbers_of(e);
    const auto embedded = embedding(e.first);
    if (!e.interleaved || images_.axes.rank > 1 || !embedded) return false;
    side = {rows_.step[e.first] / parts, distance(images_, numbers, e.first) / parts, *embedded};
    for (size_t i = e.first; i < e.first + static_cast<size_t>(parts); ++i) {
      if (rows_.step[i] != side.step * parts || distance(images_, numbers, i) != side.distance * parts || embedding(i) != embedded) return false;
    }
    return side.step > 0 && side.distance > 0;
  }

  // Of an image.
  int64_t numbers_of(const End& e) const { return std::accumulate(others_.begin(), others_.end(), e.numbers, std::multiplies<>()); }

  // `at`: of the address in the transform's parameters.
  Pointer end(const End& e, CudaTransform::Side& side, size_t at) {
    if (is_direct(e, side)) {
      list_.aligned.push_back(args_.operand(e.first));
      if (!e.real) list_.behind.push_back({args_.operand(e.first), args_.operand(e.first + 1)});
      return {Pointer::operand, at, args_.operand(e.first)};
    }
    side = {1, numbers_of(e), others_};
    side.embedding.push_back(e.numbers);
    const int64_t parts = e.real ? 1 : 2;
    const size_t scratch = list_.reserve(rows_.count * e.numbers * parts * static_cast<int64_t>(ir::size_of(call_.operands[0].dtype)));
    std::vector<Pointer> pointers{{Pointer::scratch, e.parameter, 0, scratch}};
    Parameters p = rows_;
    p.parts = e.real || !list_.transform.to_real;  // of a half, some numbers are special
    for (size_t i = e.first; i < e.first + static_cast<size_t>(parts); ++i) {
      pointers.push_back({Pointer::operand, offsetof(Parameters, at) + i * sizeof p.at[0], args_.operand(i)});
      if (p.axes.rank > 1 || distance(p, e.numbers, i) != e.numbers * p.step[i]) p.parts = 0;
    }
    list_.add(cufft_cuda_name(args_.fourier, call_.operands[0].dtype) + e.kernel, divided_up(p.count * e.numbers, fourier_threads * cufft_numbers), fourier_threads, p,
              std::move(pointers));
    list_.list.back().overlaps = e.first == 0;  // what cuFFT starts tells the kernel after it nothing
    return {Pointer::scratch, at, 0, scratch};
  }

  const Call& call_;
  const CufftArgs& args_;
  std::span<const TensorRef> operands_;  // in the order of the transform by cuFFT
  Parameters rows_, images_;  // with all axes but the last one in the batch; with those that are not transformed
  std::vector<int64_t> others_;  // lengths of the transformed axes but the last one
  CudaLaunches list_;
};

}  // namespace

CudaLaunches cufft_launches(const Call& call, const CudaMachine& machine) {
  const auto& args = *static_cast<const CufftArgs*>(call.constants);
  const int64_t length = check_fourier(call);
  std::array<TensorRef, 4> operands;
  for (size_t i = 0; i < call.operands.size(); ++i) operands[i] = call.operands[args.operand(i)];
  return Launches(call, args, std::span(operands).first(call.operands.size()), length).run(machine);
}

std::shared_ptr<const void> load_cufft(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto args = std::make_shared<CufftArgs>(parse_cufft(constants));
  load_fourier(serialise(args->fourier), operands, sizes);
  return args;
}

namespace {

// A missing library is told when the plan is loaded, not in the first run.
std::shared_ptr<const void> load(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  backend::cuda::has_cufft();
  return load_cufft(constants, operands, sizes);
}

// Without the library, ingot's own kernels run.
Resolved resolve(const Call& call) {
  bool here = backend::cuda::has_cufft();
  // A plan of cuFFT is made with calls that would end the caller's recording.
  if (here && call.stream != nullptr && call.stream->recorded_by_caller()) {
    say_once("Fourier transforms of sizes that are first seen while a CUDA graph is captured are by ingot's own kernels. For cuFFT, run once with these sizes before the capture");
    here = false;
  }
  return resolve_launches(call, here ? cufft_launches : fourier_cuda_launches);
}

}  // namespace

std::span<const RunKernel> cufft_cuda_kernels() {
  static constexpr RunKernel list[] = {{"cufft", load, resolve, run_launches}};
  return list;
}

}  // namespace ingot::kernels
