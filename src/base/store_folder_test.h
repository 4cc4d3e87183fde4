// A folder for a store in a test, and what is put there.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>

namespace ingot {

// Gone with what is in it when the test ends; `path` is not made.
struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "ingot_store_XXXXXX").string();
    path = std::string(::mkdtemp(name.data())) + "/kept";
  }
  ~Folder() { std::filesystem::remove_all(path.parent_path()); }
};

inline std::span<const std::byte> bytes_of(const std::string& s) { return std::as_bytes(std::span(s.data(), s.size())); }

}  // namespace ingot
