// Compares every step of a plan's program with the reference interpreter, each by itself.
//
// The program runs on its device, step by step. Its graph is evaluated in double, without rounding except by casts. A step's result is compared with the
// graph's value and then replaces it, so that later steps are judged by their actual inputs.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compile/compile.h"
#include "plan/plan.h"
#include "runtime/program.h"

namespace ingot::verification {

struct Settings {
  std::string device = "auto";
  int threads = 0;
  double bound = 1000;   // in roundings of a value's largest element, for float32; see bound_of
  bool stop = false;     // stop at the first step over its bound
  bool tf32 = false;     // float32 GEMMs use TF32
};

// The error of a step's results. For a packing step: how many elements in a thousand are missing; their order is checked by the steps that read them.
struct StepError {
  std::string function;  // "prepare", "forward"
  size_t step = 0;
  std::string kernel, label, origin;
  std::string dtype;
  double largest = 0;    // largest element of the reference
  double absolute = 0;   // largest difference; infinity if only one of the two is a number
  double roundings = 0;  // relative to the largest element, in units of the type's rounding; for integers: how many in a thousand differ
  double bound = 0;      // on `roundings`
  bool compared = false;
  bool over() const { return compared && !(roundings <= bound); }
};

// `record`: from compiling the plan's program for this device. Inputs may have any strides.
class Verifier {
 public:
  Verifier(std::shared_ptr<const plan::Plan>, const compile::Record&, Settings);
  ~Verifier();
  // Verifies prepare. Must come first.
  std::vector<StepError> prepare();
  std::vector<StepError> function(size_t index, std::span<const runtime::HostTensor> inputs);

 private:
  struct State;
  class RegionWalk;
  std::unique_ptr<State> state_;
};

// The bound for results of a type, in roundings of that type.
double bound_of(ir::DType, const Settings&, bool product);

// {"target", "steps": [{function, step, kernel, label, origin, dtype, largest, absolute, roundings, bound, over}], "first": the first step over its
// bound, or null}. Numbers that are not finite are null.
std::string to_json(std::string_view target, std::span<const StepError>);

}  // namespace ingot::verification
