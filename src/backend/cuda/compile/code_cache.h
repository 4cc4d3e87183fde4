// A cache of compiled device code on disk: one file per key, in a folder that processes may share.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ingot::backend::cuda {

class CodeCache {
 public:
  // Creates the folder for this user alone. If `folder` is empty, or another user can write to it, nothing is stored or found.
  explicit CodeCache(std::string folder);
  // Why nothing is stored although a folder was given; else empty.
  const std::string& problem() const { return problem_; }
  // nullopt if there is no entry, if it is damaged, or if another user could have written it. Error (io) if it cannot be read.
  std::optional<std::vector<std::byte>> find(std::span<const std::byte> key) const;
  // Atomic. Error (io) if the folder cannot be written.
  void put(std::span<const std::byte> key, std::span<const std::byte> code) const;

 private:
  std::string path(std::span<const std::byte> key) const;
  std::string folder_, problem_;
};

}  // namespace ingot::backend::cuda
