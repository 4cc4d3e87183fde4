// Reads and writes NumPy's .npy files: format 1.0 and 2.0, row-major, little-endian.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ingot/ingot.h"

namespace ingot::cli {

struct HostArray {
  ingot_dtype dtype = INGOT_FLOAT32;
  std::vector<int64_t> dims;
  std::vector<std::byte> bytes;
  ingot_tensor tensor() { return {bytes.data(), dtype, static_cast<int32_t>(dims.size()), dims.data(), nullptr}; }
  static HostArray empty(ingot_dtype dtype, std::vector<int64_t> dims);
};

size_t dtype_size(ingot_dtype);
const char* dtype_name(ingot_dtype);
// Both throw Failure with the file's name. wanted: the type that the plan takes.
HostArray read_npy(const std::string& path, ingot_dtype wanted);
void write_npy(const std::string& path, const HostArray& array);  // atomic

}  // namespace ingot::cli
