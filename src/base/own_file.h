// Caches hold what only this user can have written: what another user could have put there is not used.
#pragma once
#include <cstddef>
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
};
// Reads the whole file. Error (io) when it cannot be opened or read, or is no regular file.
OwnFile read_own_file(const std::string& path);

// Makes the folder, for this user alone, where there is none. Gives the reason when it is not to be used: it cannot be made, another user owns it or
// could write into it; nothing when it is good. What writers that were killed left there (base/atomic_file.h) is removed after a day.
std::optional<std::string> make_own_folder(const std::string& path);

// Keeps this user's other processes that lock the same path out until it goes away. The lock is a file "PATH.lock", which stays. Where it cannot be
// made, the file system has no locks, or another user has put a file there, nothing is locked.
class FileLock {
 public:
  explicit FileLock(const std::string& path);

 private:
  Descriptor file_;
};

// Prints "ingot: <text>" to standard error, each text once in a process.
void say_once(const std::string& text);

}  // namespace ingot
