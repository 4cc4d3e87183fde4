// Every step of a plan's program against the reference interpreter: the error of each by itself.
//
// The program runs step by step on its device. Beside it the program's graph is evaluated node by node in double, nothing rounded but where the user casts.
// What a step writes is compared with its value there, and then takes that value's place, so that the next step is judged by what it was given.
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
  double bound = 1000;   // in roundings of a value's largest element, where it is float32; see bound_of
  bool stop = false;     // at the first step over its bound
  bool tf32 = false;     // products of float32 read 10 bits of their operands
};

// How far the results of a step are from the reference. Of a packing step: how many elements of a thousand its result lacks; their order shows in the steps that
// read it.
struct StepError {
  std::string function;  // "prepare", "forward"
  size_t step = 0;
  std::string kernel, label, origin;
  std::string dtype;
  double largest = 0;    // element of the reference
  double absolute = 0;   // the largest difference; infinity where one is a number and the other is not
  double roundings = 0;  // relative to the largest element, in units of the type's rounding; of integers: how many of a thousand differ
  double bound = 0;      // of them
  bool compared = false;
  bool over() const { return compared && !(roundings <= bound); }
};

// `record`: of the target that the plan has for the device, as compile gave it for the same program. Inputs of one function: any strides.
class Verifier {
 public:
  Verifier(std::shared_ptr<const plan::Plan>, const compile::Record&, Settings);
  ~Verifier();
  // Steps of prepare; before any function.
  std::vector<StepError> prepare();
  std::vector<StepError> function(size_t index, std::span<const runtime::HostTensor> inputs);

 private:
  struct State;
  class RegionWalk;
  std::unique_ptr<State> state_;
};

// The bound for results of a type, in its roundings.
double bound_of(ir::DType, const Settings&, bool product);

// {"target", "steps": [{function, step, kernel, label, origin, dtype, largest, absolute, roundings, bound, over}], "first": the first one over, or null};
// numbers that are not finite are null.
std::string to_json(std::string_view target, std::span<const StepError>);

}  // namespace ingot::verification
