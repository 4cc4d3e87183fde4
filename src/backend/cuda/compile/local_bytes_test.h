// What compiled kernels keep in local memory: registers that were spilled.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ingot::backend::cuda {

// The bytes of local memory of each kernel of a cubin (an ELF file), from the attributes in its section .nv.info.
std::map<std::string, uint32_t> local_bytes(const std::vector<std::byte>& cubin);

}  // namespace ingot::backend::cuda
