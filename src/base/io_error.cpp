#include "base/io_error.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace ingot {

void fail_io(const char* action, const std::string& path, int error) {
  Error problem(error == ENOMEM ? Code::out_of_memory : Code::io, fmt::format("cannot {} {}: {}", action, path, std::strerror(error)));
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) problem.fix("free some space and try again");
  if (error == ENOENT || error == ENOTDIR || error == EISDIR) problem.fix("check the path");
  if (error == EACCES || error == EPERM || error == EROFS) problem.fix("check the permissions of the file and its folder");
  throw problem;
}

Descriptor::~Descriptor() {
  if (fd >= 0) ::close(fd);
}

size_t read_all(int fd, std::span<std::byte> to, const std::string& path) {
  size_t done = 0;
  while (done < to.size()) {
    const ssize_t count = ::read(fd, to.data() + done, std::min<size_t>(to.size() - done, size_t{1} << 30));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_io("read", path, errno);
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

}  // namespace ingot
