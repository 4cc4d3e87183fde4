#include "base/own_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/io_error.h"
#include "base/log.h"

namespace ingot {

namespace {

// Why others could have written an open file or folder; nothing when they could not.
std::optional<std::string> why_not_own(const struct stat& status, const std::string& path) {
  if (status.st_uid != ::geteuid() && status.st_uid != 0)
    return fmt::format("{} belongs to another user (number {}), so it is not used; name a path of your own", path, status.st_uid);
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return fmt::format("other users can write to {}, so it is not used; `chmod go-w` it if you know what is in it, or delete it", path);
  return std::nullopt;
}

// Looks for what killed writers left a day ago, once in a process.
void remove_old_leftovers(const std::string& folder) {
  static std::mutex mutex;
  static std::set<std::string> seen;
  {
    std::lock_guard lock(mutex);
    if (!seen.insert(folder).second) return;
  }
  remove_leftovers(folder, 24 * 60 * 60);
}

}  // namespace

std::string cache_folder(std::string_view part) {
  auto environment = [](const char* name) {
    const char* v = std::getenv(name);
    return std::string(v != nullptr ? v : "");
  };
  std::string folder = environment("INGOT_CACHE_DIR");
  if (std::string user = environment("XDG_CACHE_HOME"); folder.empty() && !user.empty()) folder = user + "/ingot";
  if (std::string home = environment("HOME"); folder.empty() && !home.empty()) folder = home + "/.cache/ingot";
  return folder.empty() ? "" : fmt::format("{}/{}", folder, part);
}

OwnFile read_own_file(const std::string& path, uint64_t max_bytes) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe in its place must not stop us
  if (file.fd < 0 && (errno == ENOENT || errno == ENOTDIR)) return {};
  if (file.fd < 0) fail_io("open", path, errno);
  struct stat status;
  if (::fstat(file.fd, &status) != 0 || !S_ISREG(status.st_mode)) fail(Code::io, "cannot open {}: it is not a regular file", path);
  const auto size = static_cast<uint64_t>(status.st_size);
  if (auto why = why_not_own(status, path)) return {std::nullopt, *why, size};
  std::vector<std::byte> bytes(static_cast<size_t>(std::min(size, max_bytes)));
  bytes.resize(read_all(file.fd, bytes, path));
  return {std::move(bytes), {}, size};
}

std::optional<std::string> make_own_folder(const std::string& path) {
  // The folders above are made as usual. Whoever owns one may put another folder in this one's place, but none that belongs to this user.
  std::error_code error;
  if (auto above = std::filesystem::path(path).parent_path(); !above.empty()) std::filesystem::create_directories(above, error);
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return fmt::format("the folder {} cannot be made: {}", path, std::strerror(errno));
  Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status;
  if (folder.fd < 0 || ::fstat(folder.fd, &status) != 0) return fmt::format("the folder {} cannot be opened: {}", path, std::strerror(errno));
  auto why = why_not_own(status, path);
  if (!why) remove_old_leftovers(path);
  return why;
}

size_t remove_leftovers(const std::string& folder, int64_t seconds) {
  const time_t latest = std::time(nullptr) - static_cast<time_t>(seconds);  // a file's time may be a tick ahead of this clock
  std::error_code error;
  size_t removed = 0;
  for (auto entry = std::filesystem::directory_iterator(folder, error); !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (!is_temporary_name(entry->path().filename().string())) continue;
    struct stat status;
    const std::string path = entry->path().string();
    const bool ours = ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::geteuid();
    if (ours && (seconds == 0 || status.st_mtime <= latest) && ::unlink(path.c_str()) == 0) ++removed;
  }
  return removed;
}

FileLock::FileLock(const std::string& path, std::chrono::milliseconds patience)
    : file_(::open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600)) {
  struct stat status;
  if (file_.fd < 0 || ::fstat(file_.fd, &status) != 0 || status.st_uid != ::geteuid()) return;
  const auto end = std::chrono::steady_clock::now() + patience;
  for (auto pause = std::chrono::microseconds(100); ::flock(file_.fd, LOCK_EX | LOCK_NB) != 0; pause = std::min(2 * pause, std::chrono::microseconds(10'000))) {
    if (errno != EWOULDBLOCK && errno != EINTR) return;
    if (std::chrono::steady_clock::now() > end) {
      state_ = State::busy;
      return;
    }
    std::this_thread::sleep_for(pause);
  }
  state_ = State::held;
}

// Closing alone would leave it to a child that was forked meanwhile, which has the descriptor too.
FileLock::~FileLock() {
  if (state_ == State::held) ::flock(file_.fd, LOCK_UN);
}

void say_once(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> said;
  {
    std::lock_guard lock(mutex);
    if (!said.insert(text).second) return;
  }
  say(LogLevel::warning, text);
}

}  // namespace ingot
