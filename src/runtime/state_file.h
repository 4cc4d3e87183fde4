// Saves and loads a state as a safetensors file: https://github.com/huggingface/safetensors.
#pragma once
#include <string>

#include "runtime/state.h"

namespace ingot::runtime {

// Atomic: the file is the old one or the new one. Entries without values get their first values.
void save(State&, const std::string& path);
// Sets every entry. Error (format) unless save() writes this header for a state with these entries: the header is compared, not parsed.
void load(State&, const std::string& path);

}  // namespace ingot::runtime
