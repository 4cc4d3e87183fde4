// Which build of a library this is.
#pragma once
#include <string>

namespace ingot {

// The build ID (a hash of its content that the linker leaves) of the library or program that an address is in, as hexadecimal digits; "" where it has none.
std::string build_id_of(const void* address);

}  // namespace ingot
