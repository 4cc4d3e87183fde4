// Bytes that can be made again, kept in a folder under the text of what they were made from: a cache for all processes of one user.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

// One file an entry, named by the SHA-256 of its key; it holds the key, the value and a hash of both. Files are written whole or not at all, so a process that is
// killed leaves no half entry; other files that it leaves, the next writer removes. An entry that is damaged counts as absent. What was used longest ago goes first when there
// is more than `limit` bytes.
class Store {
 public:
  // Makes the folder where there is none. Where it is not this user's alone (own_file.h), nothing is found or kept, and `problem` says why.
  Store(std::string folder, uint64_t limit);

  const std::string& problem() const { return problem_; }
  // The value, and the entry counts as used now.
  std::optional<std::vector<std::byte>> find(std::string_view key) const;
  // Keeps a value, and removes others when there is no room; nothing where it alone is more than the limit. Error (io) when it cannot be written.
  void put(std::string_view key, std::span<const std::byte> value) const;

  struct Entry {
    std::string name;    // the file's
    uint64_t bytes = 0;  // the file's
    int64_t used = 0;    // nanoseconds since 1970
  };
  // The entry used last comes first. Whatever else has the name of an entry is one too: a damaged one.
  std::vector<Entry> entries() const;
  struct Content {
    std::string key;
    std::vector<std::byte> value;
  };
  // Nothing for an entry that is damaged, not this user's, or gone.
  std::optional<Content> read(const std::string& name) const;
  // Its key alone: the value is not looked at.
  std::optional<std::string> key_of(const std::string& name) const;
  // What is wrong with an entry; nothing for one that is whole, or gone.
  std::optional<std::string> damage(const std::string& name) const;
  struct Pruned {
    size_t damaged = 0, left = 0, old = 0;  // damaged entries; files of killed writers; entries used longest ago
  };
  // Removes what is damaged and what killed writers left, then what was used longest ago until there are at most so many bytes. Error (io) where another process holds the folder.
  Pruned prune(uint64_t limit) const;

  // The entry whose key differs from this one in the fewest lines (key_difference.h); nothing where there is no other.
  std::optional<std::string> nearest(std::string_view key) const;

  static std::string name_of(std::string_view key);

 private:
  struct Look;
  Look look(const std::string& name, bool value) const;
  size_t make_room(uint64_t limit) const;
  void remove(const std::string& name) const;
  std::string path(std::string_view name) const;

  std::string folder_, problem_;
  uint64_t limit_;
};

}  // namespace ingot
