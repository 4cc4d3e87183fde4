// Strided tensors of the caller as row-major memory.
#pragma once
#include <string>

#include "runtime/program.h"

namespace ingot::runtime {

bool row_major(const HostTensor&);
size_t bytes_of(const HostTensor&);
// Between a strided tensor and row-major memory, both of the host: `out` of the tensor, or into it.
void copy_strided(const HostTensor& t, std::byte* plain, bool out);
std::string shape_text(const HostTensor&);  // "[2, 3]"

}  // namespace ingot::runtime
