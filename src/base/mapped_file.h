// A file mapped read-only, and the atomic way to write one.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace ingot {

class MappedFile {
 public:
  // Error (io) naming the path when it cannot be opened or is no regular file.
  static std::shared_ptr<const MappedFile> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Tells the system that the pages of this range are not needed any more; they are read again from the file if they are.
  void drop(std::span<const std::byte> range) const;

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Writes the parts one after another to a file beside `path`, syncs it and renames it: the old file or the new one, never half.
// Error (io) with the system's reason (disk full, no permission); nothing is left behind. The umask narrows `mode`.
void write_atomically(const std::string& path, std::span<const std::span<const std::byte>> parts, unsigned mode = 0666);

}  // namespace ingot
