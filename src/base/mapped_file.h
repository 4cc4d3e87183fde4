// The bytes of a file: mapped read-only, or read into memory.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace ingot {

class MappedFile {
 public:
  enum class Access {
    mapped,  // pages are read when they are used; a file that is cut off or overwritten meanwhile ends the process (SIGBUS) or changes its bytes
    whole,   // read once: what happens to the file afterwards does not matter
  };
  // Error (io) naming the path when it cannot be opened or is not a regular file.
  static std::shared_ptr<const MappedFile> open(const std::string& path, Access = Access::mapped);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Tells the system that the pages of this range are not needed any more; they are read again from the file if they are. Nothing for a file that was read.
  void drop(std::span<const std::byte> range) const;

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  size_t reserved_ = 0;  // bytes of the mapping; more than size_ when the file was shorter than it said
  bool mapped_ = true;
};

}  // namespace ingot
