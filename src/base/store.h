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
// killed leaves no half entry. An entry that is damaged counts as absent. What was used longest ago goes first when there is more than `limit` bytes.
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
    int64_t used = 0;    // seconds since 1970
  };
  // The entry used last comes first.
  std::vector<Entry> entries() const;
  // The key of an entry, and its value where it is asked for; nothing for one that is damaged, not this user's, or gone.
  struct Content {
    std::string key;
    std::vector<std::byte> value;
  };
  std::optional<Content> read(const std::string& name) const;
  void remove(const std::string& name) const;
  // Removes what was used longest ago until there are at most so many bytes; how many entries that were.
  size_t prune(uint64_t limit) const;

  // The entry whose key differs from this one in the fewest lines; nothing where there is no other.
  std::optional<std::string> nearest(std::string_view key) const;

  static std::string name_of(std::string_view key);

 private:
  std::string path(std::string_view name) const;

  std::string folder_, problem_;
  uint64_t limit_;
};

// The lines that one key has and the other has not: "- " before those of `from`, "+ " before those of `to`, each in its order.
std::vector<std::string> key_difference(std::string_view from, std::string_view to);

}  // namespace ingot
