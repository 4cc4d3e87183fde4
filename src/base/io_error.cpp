#include "base/io_error.h"

#include <unistd.h>

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

}  // namespace ingot
