// Compiled code on disk by what it was compiled from: one file a key, in a folder that processes may share.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ingot::backend::cuda {

class CodeCache {
 public:
  explicit CodeCache(std::string folder) : folder_(std::move(folder)) {}  // empty: nothing is kept
  // Nothing when there is no such entry, or it is damaged.
  std::optional<std::vector<std::byte>> find(std::span<const std::byte> key) const;
  // Atomic. Error (io) when the folder cannot be written.
  void put(std::span<const std::byte> key, std::span<const std::byte> code) const;

 private:
  std::string path(std::span<const std::byte> key) const;
  std::string folder_;
};

}  // namespace ingot::backend::cuda
