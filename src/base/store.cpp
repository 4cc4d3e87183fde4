#include "base/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <unordered_map>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/own_file.h"
#include "base/sha256.h"

namespace ingot {

namespace {

// What a file begins with.
struct Head {
  std::array<char, 8> magic;
  uint64_t key_bytes, value_bytes;
  std::array<std::byte, 32> key_hash, value_hash;
};
constexpr std::array<char, 8> magic = {'I', 'N', 'G', 'K', 'E', 'P', 'T', '1'};
static_assert(sizeof(Head) == 88);

constexpr size_t name_length = 64;

bool is_name(std::string_view text) {
  return text.size() == name_length && std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

std::string Store::name_of(std::string_view key) {
  std::string name;
  for (std::byte b : sha256(std::as_bytes(std::span(key.data(), key.size())))) name += fmt::format("{:02x}", static_cast<unsigned>(b));
  return name;
}

Store::Store(std::string folder, uint64_t limit) : folder_(std::move(folder)), limit_(limit) {
  if (folder_.empty()) {
    problem_ = "there is no folder for it: set INGOT_CACHE_DIR or HOME";
    return;
  }
  if (auto why = make_own_folder(folder_)) {
    problem_ = *why;
    folder_.clear();
  }
}

std::string Store::path(std::string_view name) const { return fmt::format("{}/{}", folder_, name); }

std::optional<Store::Content> Store::read(const std::string& name) const {
  if (folder_.empty() || !is_name(name)) return std::nullopt;
  std::optional<std::vector<std::byte>> bytes;
  try {
    bytes = read_own_file(path(name)).bytes;
  } catch (const Error&) {
    return std::nullopt;  // what cannot be read is not there
  }
  Head head;
  if (!bytes || bytes->size() < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes->data(), sizeof head);
  const uint64_t rest = bytes->size() - sizeof head;
  if (head.magic != magic || head.key_bytes > rest || head.value_bytes != rest - head.key_bytes) return std::nullopt;
  const std::span<const std::byte> key(bytes->data() + sizeof head, head.key_bytes), value(key.data() + key.size(), head.value_bytes);
  Content found{std::string(reinterpret_cast<const char*>(key.data()), key.size()), {}};
  if (hash256(key) != head.key_hash || hash256(value) != head.value_hash || name_of(found.key) != name) return std::nullopt;
  found.value.assign(value.begin(), value.end());
  return found;
}

std::optional<std::vector<std::byte>> Store::find(std::string_view key) const {
  const std::string name = name_of(key);
  std::optional<Content> found = read(name);
  if (!found) return std::nullopt;
  ::utimensat(AT_FDCWD, path(name).c_str(), nullptr, 0);  // used now
  return std::move(found->value);
}

void Store::put(std::string_view key, std::span<const std::byte> value) const {
  const std::span<const std::byte> text = std::as_bytes(std::span(key.data(), key.size()));
  const uint64_t bytes = sizeof(Head) + key.size() + value.size();
  if (folder_.empty() || bytes > limit_) return;
  const FileLock lock(path("entries"));  // two processes do not count the same room
  prune(limit_ - bytes);
  const Head head{magic, key.size(), value.size(), hash256(text), hash256(value)};
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(&head, 1)), text, value};
  write_atomically(path(name_of(key)), parts, own_file_mode);
}

std::vector<Store::Entry> Store::entries() const {
  std::vector<Entry> found;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(folder_, error); !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    struct stat status;
    const std::string name = entry->path().filename().string();
    if (!is_name(name) || ::lstat(entry->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    found.push_back({name, static_cast<uint64_t>(status.st_size), status.st_mtime});
  }
  std::sort(found.begin(), found.end(), [](const Entry& a, const Entry& b) { return a.used != b.used ? a.used > b.used : a.name < b.name; });
  return found;
}

void Store::remove(const std::string& name) const {
  if (is_name(name)) ::unlink(path(name).c_str());
}

size_t Store::prune(uint64_t limit) const {
  std::vector<Entry> all = entries();
  uint64_t total = 0;
  for (const Entry& e : all) total += e.bytes;
  size_t removed = 0;
  for (; total > limit && !all.empty(); ++removed) {
    remove(all.back().name);
    total -= all.back().bytes;
    all.pop_back();
  }
  return removed;
}

std::optional<std::string> Store::nearest(std::string_view key) const {
  const std::string own = name_of(key);
  std::optional<std::string> best;
  size_t fewest = SIZE_MAX;
  for (const Entry& e : entries()) {
    if (e.name == own) continue;
    const std::optional<Content> other = read(e.name);
    if (!other) continue;
    if (const size_t lines = key_difference(other->key, key).size(); lines < fewest) fewest = lines, best = e.name;
  }
  return best;
}

std::vector<std::string> key_difference(std::string_view from, std::string_view to) {
  auto lines_of = [](std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
      lines.push_back(text.substr(0, text.find('\n')));
      text.remove_prefix(std::min(text.size(), lines.back().size() + 1));
    }
    return lines;
  };
  const std::vector<std::string_view> sides[] = {lines_of(from), lines_of(to)};
  std::vector<std::string> found;
  for (int side = 0; side < 2; ++side) {
    std::unordered_map<std::string_view, size_t> there;
    for (std::string_view line : sides[1 - side]) ++there[line];
    for (std::string_view line : sides[side]) {
      if (auto same = there.find(line); same != there.end() && same->second > 0) {
        --same->second;
      } else {
        found.push_back(fmt::format("{} {}", side == 0 ? '-' : '+', line));
      }
    }
  }
  return found;
}

}  // namespace ingot
