// Caches hold what only this user can have written: what another user could have put there is not used.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/io_error.h"

namespace ingot {

// Where caches of this user are: INGOT_CACHE_DIR, else XDG_CACHE_HOME/ingot, else ~/.cache/ingot, and there `part`; "" when there is no such place.
std::string cache_folder(std::string_view part);

constexpr unsigned own_file_mode = 0644;  // what such a file is written with, whatever the umask lets others do

struct OwnFile {
  std::optional<std::vector<std::byte>> bytes;  // nothing where there is no such file, or it is refused
  std::string refused;                          // why it is not used, and what to do: a user other than this one and root owns it or could write it
  uint64_t size = 0;                            // the whole file's
};
// Reads the file, its first `most` bytes. Error (io) when it cannot be opened or read, or is not a regular file.
OwnFile read_own_file(const std::string& path, uint64_t max_bytes = UINT64_MAX);

// Makes the folder, for this user alone, where there is none. Gives the reason when it is not to be used: it cannot be made, another user owns it or
// could write into it; nothing when it is good. What writers that were killed left there (base/atomic_file.h) is removed after a day.
std::optional<std::string> make_own_folder(const std::string& path);
// Removes what writers that were killed left in a folder at least so many seconds ago; how many files that were.
size_t remove_leftovers(const std::string& folder, int64_t seconds);

// Keeps this user's other processes that lock the same path out until it goes away. The lock is a file "PATH.lock", which stays. A process that dies gives it back; one
// that is stopped does not, so nobody waits for longer than `patience`.
class FileLock {
 public:
  enum class State {
    held,
    busy,   // another process has had it all the time
    absent  // there are no locks: the file cannot be made, the file system has none, or another user has put a file there
  };
  explicit FileLock(const std::string& path, std::chrono::milliseconds patience = std::chrono::seconds(4));
  ~FileLock();
  State state() const { return state_; }

 private:
  Descriptor file_;
  State state_ = State::absent;
};

// Prints "ingot: <text>" to standard error, each text once in a process.
void say_once(const std::string& text);

}  // namespace ingot
