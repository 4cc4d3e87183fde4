// What the printers of two kernels share that sum windows of A (run/windows_args.h): depthwise convolutions and convolutions in groups. A thread sums some adjacent outputs
// of a line in registers, so that each load of A and B serves several sums; the body is printed after the sums.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "backend/cuda/compile/element_text.h"
#include "backend/cuda/compile/printed_kernels.h"
#include "backend/cuda/kernels/concurrent/part.h"
#include "backend/cuda/kernels/run/launches.h"
#include "backend/cuda/kernels/run/windows_args.h"
#include "backend/offer.h"

namespace ingot::backend::cuda {

std::string_view windows_text();

// How the line (the range of the index before the last kept one) and its taps move through A.
struct WindowLine {
  static constexpr size_t none = SIZE_MAX;
  size_t axis = none;                // of A; none: all outputs of a line read the same elements
  size_t tap = none;                 // the summed index along the line
  int64_t step = 0, tap_step = 0;    // along the axis
};
// nullopt if the line's index moves along several axes of A, or shares its axis with other kept indices.
std::optional<WindowLine> find_line(const ir::AffineMap&, size_t kept);
// The places along the line that the windows of adjacent outputs cover, relative to the first, in order.
std::vector<int64_t> places_of(const WindowLine&, int64_t outputs, int64_t taps);
int64_t coefficient(const ir::AffineMap::Axis&, size_t index);
// True if the map certainly stays inside this axis of A.
bool stays_inside(const ir::AffineMap&, const StridedLayout& a, size_t axis);

// Why a convolution with this body cannot be printed, if so.
struct WindowObstacle {
  Obstacle obstacle;
  std::string reason;
};

// Sets the arguments that the map and the body give, and their part of `sizes`.
void take_map(const ir::AffineMap&, size_t kept, const StridedLayout& a, const FusedBody&, kernels::WindowArgs&, std::vector<ir::Dim>& sizes);
// Adds the struct of parameters, and the arguments and sizes that the text decides.
void finish_windows(PrintedKernels&, const ElementText&, size_t pointers, kernels::WindowArgs&, std::vector<ir::Dim>& sizes);

// The step, which can be a part of others. `args`: the kernel's, with all but its name.
template <class Args>
EmittedStep window_step(std::string_view kernel, std::string_view prefix, const PrintedKernels& printed, const Args& args, const std::vector<ir::Dim>& sizes) {
  const std::string name = printed.name(prefix);
  auto in_form = [=](ParametersOf of) {
    Args own = args;
    own.name = name_of(name, of);
    return EmittedStep{std::string(kernel), serialise(own), sizes, {printed.unit(name, of)}};
  };
  EmittedStep step = in_form(ParametersOf::step);
  step.as_part = as_part({name, [in_form] { return in_form(ParametersOf::rows); }});
  return step;
}

struct WindowKernel {
  decltype(kernels::RunKernel::load) load;
  kernels::CudaLaunches (*launches)(const kernels::Call&, const kernels::CudaMachine&);
};
// The step that `print` gives of all variants: 0 for vectors and 1 for single elements. If all sizes are known, kernels that no launch of these sizes and addresses uses are
// not printed.
EmittedStep step_of_used(const WindowKernel&, const std::function<EmittedStep(const std::vector<int>& variants)>& print, const Site&);

}  // namespace ingot::backend::cuda
