// A zip archive of stored entries, read in place. torch writes its archives so that each entry is an aligned,
// uncompressed range of the file: a weight is a pointer into the mapping.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"

namespace ingot::capture {

class Zip {
 public:
  // Error (format) naming the place when the directory is damaged or truncated.
  explicit Zip(std::shared_ptr<const MappedFile> file, std::string path);
  // Name without the archive's root folder ("models/model.json"); nullopt when there is no such entry.
  // Error when the entry is compressed or reaches outside the file.
  bool has(std::string_view name) const { return entries_.find(name) != entries_.end(); }
  std::span<const std::byte> bytes(std::string_view name) const;
  std::string_view text(std::string_view name) const;
  // Names below a folder ("models/"), sorted.
  std::vector<std::string> names(std::string_view folder) const;
  const std::shared_ptr<const MappedFile>& file() const { return file_; }

 private:
  struct Entry {
    uint64_t header = 0, size = 0, packed = 0;
    uint16_t method = 0, flags = 0;
  };
  [[noreturn]] void damaged(std::string_view what) const;
  uint64_t number(uint64_t at, int bytes) const;
  void read_directory();

  std::shared_ptr<const MappedFile> file_;
  std::string path_;
  std::span<const std::byte> data_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace ingot::capture
