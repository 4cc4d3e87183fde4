// CUDA's half of compile: steps, and the code of all of them compiled together.
#pragma once
#include <memory>

#include "backend/emitter.h"

namespace ingot::backend::cuda {

// `architecture`: 90 is sm_90. No GPU is needed. `tf32`: see EmitterSettings.
std::unique_ptr<backend::Emitter> make_emitter(int architecture, bool tf32 = false);

}  // namespace ingot::backend::cuda
