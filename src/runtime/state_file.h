// A state as a file of safetensors: https://github.com/huggingface/safetensors.
#pragma once
#include <string>

#include "runtime/state.h"

namespace ingot::runtime {

// Atomic: the old file or the new one, never half. Entries without values get their first ones.
void save(State&, const std::string& path);
// Every entry gets the file's value. Error (format) unless the file is what save() writes for a state with the same entries: its header is compared, not interpreted.
void load(State&, const std::string& path);

}  // namespace ingot::runtime
