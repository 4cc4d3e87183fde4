#include "base/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/key_difference.h"
#include "base/own_file.h"
#include "base/sha256.h"

namespace ingot {

namespace {

// What a file begins with.
struct Head {
  std::array<char, 8> magic;
  uint64_t key_bytes, value_bytes;
  Hash128 key_hash, value_hash;
};
constexpr std::array<char, 8> magic = {'I', 'N', 'G', 'K', 'E', 'P', 'T', '2'};
static_assert(sizeof(Head) == 56);

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

// What has a name: the content of a whole entry, what is wrong with a damaged one, neither where nothing is there.
struct Store::Look {
  std::optional<Content> content;
  std::optional<std::string> wrong;
};

Store::Look Store::look(const std::string& name, bool value) const try {
  struct stat status;
  if (folder_.empty() || !is_name(name) || ::lstat(path(name).c_str(), &status) != 0) return {};
  if (!S_ISREG(status.st_mode)) return {{}, "it is not a file, but a link, a folder or the like"};
  // The size is compared before a long file is read.
  const OwnFile begin = read_own_file(path(name), sizeof(Head));
  if (!begin.bytes) return {{}, begin.refused.empty() ? std::optional<std::string>() : begin.refused};
  Head head;
  if (begin.bytes->size() < sizeof head) return {{}, fmt::format("it has {} bytes, too few for an entry", begin.size)};
  std::memcpy(&head, begin.bytes->data(), sizeof head);
  if (head.magic != magic) return {{}, "it does not begin as an entry of this version of ingot does"};
  const uint64_t rest = begin.size - sizeof head;
  if (head.key_bytes > rest || head.value_bytes != rest - head.key_bytes) return {{}, fmt::format("it has {} bytes, and its head says otherwise", begin.size)};
  const OwnFile file = read_own_file(path(name), sizeof head + head.key_bytes + (value ? head.value_bytes : 0));
  if (!file.bytes) return {};
  if (file.size != begin.size || std::memcmp(file.bytes->data(), &head, sizeof head) != 0) return look(name, value);  // it was replaced meanwhile
  const std::span<const std::byte> all(*file.bytes), key = all.subspan(sizeof head, head.key_bytes), rest_of_it = all.subspan(sizeof head + head.key_bytes);
  if (hash128(key) != head.key_hash || (value && hash128(rest_of_it) != head.value_hash)) return {{}, "its bytes do not have the checksum that it says"};
  Look found{Content{std::string(reinterpret_cast<const char*>(key.data()), key.size()), {rest_of_it.begin(), rest_of_it.end()}}, {}};
  if (name_of(found.content->key) != name) return {{}, "it is the entry of another name"};
  return found;
} catch (const Error& e) {  // what cannot be read is not there
  return {{}, e.message};
}

std::optional<Store::Content> Store::read(const std::string& name) const { return look(name, true).content; }

std::optional<std::string> Store::damage(const std::string& name) const { return look(name, true).wrong; }

std::optional<std::string> Store::key_of(const std::string& name) const {
  std::optional<Content> found = look(name, false).content;
  return found ? std::optional(std::move(found->key)) : std::nullopt;
}

std::optional<std::vector<std::byte>> Store::find(std::string_view key) const {
  const std::string name = name_of(key);
  std::optional<Content> found = read(name);
  if (!found) return std::nullopt;
  ::utimensat(AT_FDCWD, path(name).c_str(), nullptr, AT_SYMLINK_NOFOLLOW);  // used now
  return std::move(found->value);
}

void Store::put(std::string_view key, std::span<const std::byte> value) const {
  const std::span<const std::byte> text = std::as_bytes(std::span(key.data(), key.size()));
  const uint64_t bytes = sizeof(Head) + key.size() + value.size();
  if (folder_.empty() || bytes > limit_) return;
  const FileLock lock(path("entries"));  // two processes do not count the same room
  if (lock.state() == FileLock::State::busy) fail(Code::io, "{}: another process is writing there, and does not end", folder_);
  const auto there = find(key);
  if (there && std::equal(there->begin(), there->end(), value.begin(), value.end())) return;  // another process has put it meanwhile
  if (lock.state() == FileLock::State::held) remove_leftovers(folder_, 0);                     // whoever wrote them is dead
  make_room(limit_ - bytes);
  const Head head{magic, key.size(), value.size(), hash128(text), hash128(value)};
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(&head, 1)), text, value};
  write_atomically(path(name_of(key)), parts, own_file_mode, Durability::none);
}

std::vector<Store::Entry> Store::entries() const {
  std::vector<Entry> found;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(folder_, error); !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    struct stat status;
    const std::string name = entry->path().filename().string();
    if (!is_name(name) || ::lstat(entry->path().c_str(), &status) != 0) continue;
    found.push_back({name, static_cast<uint64_t>(status.st_size), int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec});
  }
  std::sort(found.begin(), found.end(), [](const Entry& a, const Entry& b) { return a.used != b.used ? a.used > b.used : a.name < b.name; });
  return found;
}

void Store::remove(const std::string& name) const { std::remove(path(name).c_str()); }  // an empty folder too

size_t Store::make_room(uint64_t limit) const {
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

Store::Pruned Store::prune(uint64_t limit) const {
  const FileLock lock(path("entries"));
  if (lock.state() == FileLock::State::busy) fail(Code::io, "{}: another process is writing there, and does not end", folder_);
  Pruned pruned;
  for (const Entry& e : entries()) {
    if (damage(e.name)) remove(e.name), ++pruned.damaged;
  }
  if (lock.state() == FileLock::State::held) pruned.left = remove_leftovers(folder_, 0);
  pruned.old = make_room(limit);
  return pruned;
}

std::optional<std::string> Store::nearest(std::string_view key) const {
  const std::string own = name_of(key);
  std::optional<std::string> best;
  size_t fewest = SIZE_MAX;
  for (const Entry& e : entries()) {
    if (e.name == own) continue;
    const std::optional<std::string> other = key_of(e.name);
    if (!other) continue;
    if (const size_t lines = differing_lines(*other, key).size(); lines < fewest) fewest = lines, best = e.name;
  }
  return best;
}

}  // namespace ingot
