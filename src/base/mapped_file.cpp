#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/io_error.h"

namespace ingot {

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path, Access access) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe without a writer would be waited for
  if (file.fd < 0) fail_io("open", path, errno);
  struct stat status;
  if (::fstat(file.fd, &status) != 0) fail_io("open", path, errno);
  if (S_ISDIR(status.st_mode)) fail_io("open", path, EISDIR);
  if (!S_ISREG(status.st_mode)) fail(Code::io, "cannot open {}: it is not a regular file", path);
  auto made = std::shared_ptr<MappedFile>(new MappedFile);
  made->mapped_ = access == Access::mapped;
  made->reserved_ = static_cast<size_t>(status.st_size);
  if (made->reserved_ == 0) return made;
  void* data = made->mapped_ ? ::mmap(nullptr, made->reserved_, PROT_READ, MAP_PRIVATE, file.fd, 0)
                             : ::mmap(nullptr, made->reserved_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) fail_io(made->mapped_ ? "map" : "read", path, errno);
  auto* to = static_cast<std::byte*>(data);
  made->data_ = to;
  if (made->mapped_) {
    made->size_ = made->reserved_;
    return made;
  }
  made->size_ = read_all(file.fd, {to, made->reserved_}, path);
  return made;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), reserved_);
}

void MappedFile::drop(std::span<const std::byte> range) const {
  if (!mapped_ || range.empty() || range.data() < data_ || range.data() + range.size() > data_ + size_) return;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  // Whole pages only: the ones at the ends may hold other data too.
  uintptr_t begin = (reinterpret_cast<uintptr_t>(range.data()) + page - 1) / page * page;
  uintptr_t end = reinterpret_cast<uintptr_t>(range.data() + range.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace ingot
