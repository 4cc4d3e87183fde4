// Files of safetensors (https://github.com/huggingface/safetensors): tensors by name.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "ir/dtype.h"

namespace ingot::capture {

struct NamedTensor {
  std::string name, type;          // the type as the file writes it, "BF16"
  std::optional<ir::DType> dtype;  // nothing for a type that plans do not have
  std::vector<int64_t> dims;
  std::span<const std::byte> bytes;  // row-major; may begin at any address
};

struct TensorFile {
  std::shared_ptr<const MappedFile> file;
  std::vector<NamedTensor> tensors;  // in the header's order
  std::string adapter_metadata;      // the entry "lora_adapter_metadata" of its metadata, or ""
};

// Maps the file and checks its header: every name once, every tensor inside the file and as long as its type and dims say. Error (format, io) naming the path.
TensorFile read_safetensors(const std::string& path);

}  // namespace ingot::capture
