#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include "base/error.h"
#include "base/io_error.h"

namespace ingot {

namespace {

constexpr std::string_view name_start = ".ingot-", name_end = ".tmp";

std::string random_name() {
  std::array<uint64_t, 2> bits{};
  if (::getrandom(bits.data(), sizeof bits, 0) != sizeof bits) fail_io("write", "a file with a random name", errno);
  return fmt::format("{}{:016x}{:016x}{}", name_start, bits[0], bits[1], name_end);
}

}  // namespace

bool is_temporary_name(std::string_view name) { return name.size() == name_start.size() + 32 + name_end.size() && name.starts_with(name_start) && name.ends_with(name_end); }

void write_atomically(const std::string& path, std::span<const std::span<const std::byte>> parts, unsigned mode, Durability durability) {
  // A pipe or a device, also behind a link, is not a file that could be replaced: whoever reads there would wait for ever, and /dev/null is everybody's.
  struct stat there;
  if (::stat(path.c_str(), &there) == 0 && S_ISDIR(there.st_mode)) fail_io("write", path, EISDIR);
  if (::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) fail(Code::io, "cannot write {}: it is not a regular file", path);
  // In the folder of the target, so that the rename stays inside one file system.
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  const std::string temporary = folder + random_name();
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
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
  if (durability == Durability::synced && ::fsync(file.fd) != 0) give_up(errno);
  int fd = file.fd;
  file.fd = -1;
  if (::close(fd) != 0) give_up(errno);
  if (std::rename(temporary.c_str(), path.c_str()) != 0) give_up(errno);
  if (durability == Durability::none) return;
  // The new name is on the disk when its folder is; where a folder cannot be synced there is nothing more to do.
  if (Descriptor of(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)); of.fd >= 0) ::fsync(of.fd);
}

void write_atomically(const std::string& path, std::string_view text) {
  const std::span<const std::byte> whole = std::as_bytes(std::span(text.data(), text.size()));
  write_atomically(path, {&whole, 1});
}

}  // namespace ingot
