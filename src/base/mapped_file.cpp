#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace ingot {

namespace {

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

[[noreturn]] void fail_io(const char* action, const std::string& path, int error) {
  Error problem(error == ENOMEM ? Code::out_of_memory : Code::io, fmt::format("cannot {} {}: {}", action, path, std::strerror(error)));
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) problem.fix("free some space and try again");
  if (error == ENOENT || error == ENOTDIR || error == EISDIR) problem.fix("check the path");
  if (error == EACCES || error == EPERM || error == EROFS) problem.fix("check the permissions of the file and its folder");
  throw problem;
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) fail_io("open", path, errno);
  struct stat status;
  if (::fstat(file.fd, &status) != 0) fail_io("open", path, errno);
  if (S_ISDIR(status.st_mode)) fail_io("open", path, EISDIR);
  if (!S_ISREG(status.st_mode)) fail(Code::io, "cannot open {}: it is not a regular file", path);
  auto mapped = std::shared_ptr<MappedFile>(new MappedFile);
  mapped->size_ = static_cast<size_t>(status.st_size);
  if (mapped->size_ > 0) {
    void* data = ::mmap(nullptr, mapped->size_, PROT_READ, MAP_PRIVATE, file.fd, 0);
    if (data == MAP_FAILED) fail_io("map", path, errno);
    mapped->data_ = static_cast<const std::byte*>(data);
  }
  return mapped;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::drop(std::span<const std::byte> range) const {
  if (range.empty() || range.data() < data_ || range.data() + range.size() > data_ + size_) return;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  // Whole pages only: the ones at the ends may hold other data too.
  uintptr_t begin = (reinterpret_cast<uintptr_t>(range.data()) + page - 1) / page * page;
  uintptr_t end = reinterpret_cast<uintptr_t>(range.data() + range.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void write_atomically(const std::string& path, std::span<const std::span<const std::byte>> parts, unsigned mode) {
  // Beside the target, so that the rename stays inside one file system; a name of this call's own, so that threads may write one path.
  static std::atomic<unsigned> calls{0};
  std::string temporary = fmt::format("{}.{}.{}.tmp", path, ::getpid(), calls++);
  Descriptor file{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)};
  if (file.fd < 0 && errno == EEXIST) {  // left by a killed process with our number
    ::unlink(temporary.c_str());
    file.fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  }
  if (file.fd < 0) fail_io("write", path, errno);
  auto give_up = [&](int error) {
    ::unlink(temporary.c_str());
    fail_io("write", path, error);
  };
  for (std::span<const std::byte> part : parts) {
    while (!part.empty()) {
      ssize_t written = ::write(file.fd, part.data(), std::min<size_t>(part.size(), size_t{1} << 30));
      if (written < 0) {
        if (errno == EINTR) continue;
        give_up(errno);
      }
      part = part.subspan(static_cast<size_t>(written));
    }
  }
  if (::fsync(file.fd) != 0) give_up(errno);
  int fd = file.fd;
  file.fd = -1;
  if (::close(fd) != 0) give_up(errno);
  if (::rename(temporary.c_str(), path.c_str()) != 0) give_up(errno);
}

}  // namespace ingot
