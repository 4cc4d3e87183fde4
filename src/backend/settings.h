// What the options ask of every implementation.
#pragma once
#include <cstdint>

#include "base/machine.h"
#include "base/target.h"

namespace ingot::backend {

// When results must be equal bit by bit.
enum class Deterministic : uint8_t {
  off,    // not even for equal inputs: sums may be made in the order in which threads come
  run,    // for equal inputs
  batch,  // for equal inputs, whatever else is in the batch
};

struct Settings {
  Deterministic deterministic = Deterministic::run;
  // Float32 GEMMs, or convolutions, may round their operands to TF32 (10 mantissa bits) if the target has it.
  bool tf32 = false, tf32_convolutions = false;
  // Offers that another one beats by little (is_near) keep the code of all their choices, so that timing can decide. Only for offers that take the whole body.
  bool rivals = false;
  Machine machine = machine_for(Target());  // the rates by which costs are estimated
};

}  // namespace ingot::backend
