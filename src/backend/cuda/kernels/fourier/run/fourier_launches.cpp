#include "backend/cuda/kernels/fourier/run/fourier_launches.h"

#include <algorithm>
#include <cstddef>

#include "backend/cuda/kernels/fourier/run/fourier_cuda_args.h"
#include "backend/cuda/kernels/fourier/run/tuning.h"
#include "backend/cuda/run/launch.h"
#include "kernels/fourier/run/fourier_checks.h"

namespace ingot::kernels {

namespace {

using Pointer = CudaLaunch::Pointer;
using Parameters = FourierCudaParameters;

using namespace fourier_tuning;

// True if neighbouring transforms lie closer together than the elements of one, as the columns of an image do.
bool lie_across(const Parameters& p, size_t operands) {
  if (p.axes.rank == 0) return false;
  for (size_t i = 0; i < operands; ++i) {
    if (p.axes.strides[i][p.axes.rank - 1] >= p.step[i]) return false;
  }
  return true;
}

// The launches of one step.
class Launches {
 public:
  Launches(const Call& call, int64_t length)
      : args_(*static_cast<const FourierArgs*>(call.constants)), name_(fourier_cuda_name(args_, call.operands[0].dtype)), p_(fourier_parameters(call.operands, length)) {
    const TensorRef& first = call.operands[0];
    for (size_t i = 0; i < call.operands.size(); ++i) operands_.push_back({Pointer::operand, offsetof(Parameters, at) + i * sizeof p_.at[0], i});
    p_.n = args_.kind != ir::FourierKind::pair && length % 2 == 0 ? length / 2 : length;
    const auto radices = ir::radices_of(p_.n);
    p_.whole = radices ? p_.n : ir::power_for(p_.n);
    for (int r : radices ? *radices : *ir::radices_of(p_.whole)) p_.radix[p_.stages++] = r;
    complex_ = 2 * static_cast<int64_t>(ir::size_of(first.dtype));
  }

  CudaLaunches run() {
    if (p_.count == 0) return list_;
    roots_ = list_.reserve(p_.whole * complex_);
    add("roots", divided_up(p_.whole, fourier_threads), p_, {at_roots()});
    if (p_.whole != p_.n) filter_ = list_.reserve(p_.whole * complex_);
    2 * p_.whole* complex_ <= shared_bytes ? in_blocks() : through_scratch();
    list_.overlap();
    return list_;
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
    p_.across = lie_across(p_, operands_.size()) && 2 * (p_.whole + 1) * complex_ <= shared_bytes;
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
  CudaLaunches list_;
};

}  // namespace

FourierCudaParameters fourier_parameters(std::span<const TensorRef> operands, int64_t length) {
  FourierCudaParameters p{};
  const TensorRef& first = operands[0];
  JoinedAxes axes(4);
  for (int d = 0; d + 1 < first.rank; ++d) {
    std::vector<int64_t> steps(4, 0);
    for (size_t i = 0; i < operands.size(); ++i) steps[i] = operands[i].strides[d];
    axes.add(first.dims[d], steps);
  }
  for (size_t i = 0; i < operands.size(); ++i) p.step[i] = operands[i].strides[first.rank - 1];
  p.axes = axes.get<4>();
  p.count = axes.points;
  p.length = p.n = p.whole = length;
  return p;
}

CudaLaunches fourier_cuda_launches(const Call& call, const CudaMachine&) { return Launches(call, check_fourier(call)).run(); }

std::span<const RunKernel> fourier_cuda_kernels() {
  static constexpr RunKernel list[] = {{"fourier", load_fourier, resolved<fourier_cuda_launches>, run_launches}};
  return list;
}

}  // namespace ingot::kernels
