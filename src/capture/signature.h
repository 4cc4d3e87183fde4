// What a program's file says of its arguments and results, in the form that plans keep for Python.
#pragma once
#include <string>

#include "capture/json.h"

namespace ingot::capture {

// `module`: the archive's "graph_module". "null" where it does not say.
std::string signature_text(Json module);

}  // namespace ingot::capture
