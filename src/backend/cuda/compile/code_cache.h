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
  // Makes the folder for this user alone. Empty, or a folder that another user could write to: nothing is kept or found.
  explicit CodeCache(std::string folder);
  // Why nothing is kept although a folder was named; else empty.
  const std::string& problem() const { return problem_; }
  // Nothing when there is no such entry, it is damaged, or another user could have written it. Error (io) when it cannot be read.
  std::optional<std::vector<std::byte>> find(std::span<const std::byte> key) const;
  // Atomic. Error (io) when the folder cannot be written.
  void put(std::span<const std::byte> key, std::span<const std::byte> code) const;

 private:
  std::string path(std::span<const std::byte> key) const;
  std::string folder_, problem_;
};

}  // namespace ingot::backend::cuda
