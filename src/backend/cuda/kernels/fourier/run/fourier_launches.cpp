#include "backend/cuda/kernels/fourier/run/fourier_launches.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "backend/cuda/kernels/fourier/run/fourier_cuda_args.h"
#include "backend/cuda/kernels/fourier/run/tuning.h"
#include "backend/cuda/run/launch.h"
#include "kernels/fourier/run/fourier_checks.h"

namespace ingot::kernels {

namespace {

using Pointer = CudaLaunch::Pointer;
using Parameters = FourierCudaParameters;

using namespace fourier_tuning;

// One part of the numbers that are read or written: an operand of the step, or scratch.
struct Numbers {
  std::array<int64_t, max_rank> dims{}, strides{};
  int rank = 0;
  ir::DType dtype = ir::DType::f32;
  Pointer where{};

  Numbers(const TensorRef& t, size_t operand) : rank(t.rank), dtype(t.dtype), where{Pointer::operand, 0, operand} {
    std::copy_n(t.dims, rank, dims.begin());
    std::copy_n(t.strides, rank, strides.begin());
  }
  TensorRef ref() const { return {nullptr, dtype, rank, dims.data(), strides.data()}; }
  // With this axis in the last place.
  Numbers transposed(int axis) const {
    Numbers out = *this;
    std::swap(out.dims[static_cast<size_t>(axis)], out.dims[static_cast<size_t>(rank - 1)]);
    std::swap(out.strides[static_cast<size_t>(axis)], out.strides[static_cast<size_t>(rank - 1)]);
    return out;
  }
};
using Parts = std::vector<Numbers>;

// Adds the launches of transforms along the last axis.
class Launches {
 public:
  Launches(const FourierArgs& args, const Parts& parts, int64_t length, CudaLaunches& list) : args_(args), name_(fourier_cuda_name(args, parts[0].dtype)), list_(list) {
    std::vector<TensorRef> refs;
    for (const Numbers& part : parts) {
      operands_.push_back(part.where);
      operands_.back().at = offsetof(Parameters, at) + refs.size() * sizeof p_.at[0];
      refs.push_back(part.ref());
    }
    p_ = fourier_parameters(refs, length);
    p_.n = args_.kind != ir::FourierKind::pair && length % 2 == 0 ? length / 2 : length;
    const auto radices = ir::radices_of(p_.n);
    p_.whole = radices ? p_.n : ir::power_for(p_.n);
    for (int r : radices ? *radices : *ir::radices_of(p_.whole)) p_.radix[p_.stages++] = r;
    complex_ = 2 * static_cast<int64_t>(ir::size_of(parts[0].dtype));
  }

  void run() {
    if (p_.count == 0) return;
    roots_ = list_.reserve(p_.whole * complex_);
    add("roots", divided_up(p_.whole, fourier_threads), p_, {at_roots()});
    if (p_.whole != p_.n) filter_ = list_.reserve(p_.whole * complex_);
    2 * p_.whole* complex_ <= shared_bytes ? in_blocks() : through_scratch();
  }

 private:
  void in_blocks() {
    choose_group();
    if (filter_) {
      Parameters once = p_;
      once.count = once.group = 1;
      once.across = 0;
      once.pitch = static_cast<int>(p_.whole);
      add("filter", 1, once, {at_roots(), at_filter()});
      list_.list.back().shared = static_cast<uint32_t>(2 * p_.whole * complex_);
    }
    std::vector<Pointer> pointers = operands_;
    pointers.push_back(at_roots());
    if (filter_) pointers.push_back(at_filter());
    add("block", divided_up(p_.count, p_.group), p_, pointers);
    list_.list.back().shared = static_cast<uint32_t>(2 * p_.group * p_.pitch * complex_);
  }

  void choose_group() {
    // Across, a transform begins in another bank of shared memory than the one before.
    p_.across = args_.columns && 2 * (p_.whole + 1) * complex_ <= shared_bytes;
    p_.pitch = static_cast<int>(p_.whole) + p_.across;
    auto fits = [&](int group) {
      return group <= max_group_transforms && (group * p_.whole <= group_elements || (p_.across && group <= across_transforms && 2 * group * p_.pitch * complex_ <= shared_bytes));
    };
    p_.group = 1;
    while (fits(2 * p_.group) && p_.group < p_.count) p_.group *= 2;
  }

  void through_scratch() {
    const int64_t bytes = p_.count * p_.whole * complex_;
    size_t from = list_.reserve(bytes), to = list_.reserve(bytes);
    if (filter_) {
      Parameters once = p_;
      once.count = 1;
      // Begun so that the last stage writes the filter.
      size_t here = once.stages % 2 == 0 ? *filter_ : from, there = once.stages % 2 == 0 ? from : *filter_;
      add("load_filter", divided_up(once.whole, fourier_threads), once, {at_to(here)});
      stages(once, here, there);
    }
    std::vector<Pointer> pointers = operands_;
    pointers.push_back(at_to(from));
    add("load", divided_up(p_.count * p_.whole, fourier_threads), p_, pointers);
    stages(p_, from, to);
    if (filter_) {
      add("middle", divided_up(p_.count * p_.whole, fourier_threads), p_, {at_to(from), at_filter()});
      stages(p_, from, to);
    }
    pointers = operands_;
    pointers.push_back(at_from(from));
    const int64_t stores = args_.kind == ir::FourierKind::of_real ? p_.length / 2 + 1 : p_.n;
    add("store", divided_up(p_.count * stores, fourier_threads), p_, pointers);
  }

  // From one array to the other and back; `from` is the last one written.
  void stages(Parameters p, size_t& from, size_t& to) {
    p.parts = p.whole;
    p.neighbours = 1;
    for (int s = 0; s < p_.stages; ++s) {
      p.radix[0] = p_.radix[s];
      p.parts /= p.radix[0];
      add("stage", divided_up(p.count * p.parts * p.neighbours, fourier_threads), p, {at_from(from), at_to(to), at_roots()});
      p.neighbours *= p.radix[0];
      std::swap(from, to);
    }
  }

  void add(std::string_view kernel, int64_t blocks, const Parameters& p, std::vector<Pointer> pointers) {
    list_.add(name_ + "_" + std::string(kernel), blocks, fourier_threads, p, std::move(pointers));
  }
  static Pointer at_from(size_t scratch) { return {Pointer::scratch, offsetof(Parameters, from), 0, scratch}; }
  static Pointer at_to(size_t scratch) { return {Pointer::scratch, offsetof(Parameters, to), 0, scratch}; }
  Pointer at_roots() const { return {Pointer::scratch, offsetof(Parameters, roots), 0, roots_}; }
  Pointer at_filter() const { return {Pointer::scratch, offsetof(Parameters, filter), 0, *filter_}; }

  const FourierArgs& args_;
  std::string name_;
  Parameters p_;
  std::vector<Pointer> operands_;
  int64_t complex_ = 8;  // bytes
  size_t roots_ = 0;  // in scratch
  std::optional<size_t> filter_;
  CudaLaunches& list_;
};

// Along one axis after another. Each block or thread has read its numbers before it writes them, so that transforms along the other axes write over what they read.
class Transforms {
 public:
  explicit Transforms(const Call& call) : args_(*static_cast<const FourierArgs*>(call.constants)), length_(check_fourier(call)) {
    for (size_t i = 0; i < call.operands.size(); ++i) (i < args_.inputs() ? from_ : to_).emplace_back(call.operands[i], i);
  }

  CudaLaunches run() {
    const bool to_real = args_.kind == Kind::to_real;
    if (to_real && args_.axes > 1) {
      const Parts kept = in_scratch(from_);
      for (int64_t i = 2; i <= args_.axes; ++i) along_other(i, i == 2 ? from_ : kept, kept, true);
      from_ = kept;
    }
    along(args_, from_, to_, length_);
    for (int64_t i = 2; !to_real && i <= args_.axes; ++i) along_other(i, to_, to_, false);
    list_.overlap();
    return std::move(list_);
  }

 private:
  using Kind = ir::FourierKind;

  void along(const FourierArgs& args, Parts from, const Parts& to, int64_t length) {
    from.insert(from.end(), to.begin(), to.end());
    Launches(args, from, length, list_).run();
  }
  // Complex numbers along the axis in place `last` from the end; inverse transforms have the parts swapped.
  void along_other(int64_t last, const Parts& from, const Parts& to, bool inverse) {
    const int axis = from[0].rank - static_cast<int>(last);
    auto transposed = [&](const Parts& parts) { return Parts{parts[inverse].transposed(axis), parts[!inverse].transposed(axis)}; };
    along({Kind::pair, 1, !args_.columns}, transposed(from), transposed(to), from[0].dims[static_cast<size_t>(axis)]);
  }
  // As many numbers, row-major.
  Parts in_scratch(Parts parts) {
    for (Numbers& part : parts) {
      int64_t elements = 1;
      for (int d = part.rank - 1; d >= 0; --d) part.strides[static_cast<size_t>(d)] = std::exchange(elements, elements * part.dims[static_cast<size_t>(d)]);
      part.where = {Pointer::scratch, 0, 0, list_.reserve(elements * static_cast<int64_t>(ir::size_of(part.dtype)))};
    }
    return parts;
  }

  const FourierArgs& args_;
  const int64_t length_;
  Parts from_, to_;
  CudaLaunches list_;
};

}  // namespace

FourierCudaParameters fourier_parameters(std::span<const TensorRef> operands, int64_t length, int inner) {
  FourierCudaParameters p{};
  const TensorRef& first = operands[0];
  JoinedAxes axes(4);
  for (int d = 0; d + inner < first.rank; ++d) {
    std::vector<int64_t> steps(4, 0);
    for (size_t i = 0; i < operands.size(); ++i) steps[i] = operands[i].strides[d];
    axes.add(first.dims[d], steps);
  }
  for (size_t i = 0; i < operands.size(); ++i) p.step[i] = operands[i].strides[first.rank - 1];
  p.axes = axes.get<4>();
  p.count = axes.points;
  p.length = p.n = p.whole = length;
  p.others[0] = p.others[1] = 1;
  return p;
}

CudaLaunches fourier_cuda_launches(const Call& call, const CudaMachine&) { return Transforms(call).run(); }

std::span<const RunKernel> fourier_cuda_kernels() {
  static constexpr RunKernel list[] = {{"fourier", load_fourier, resolved<fourier_cuda_launches>, run_launches}};
  return list;
}

}  // namespace ingot::kernels
