#include "backend/cuda/compile/code_cache.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/own_file.h"
#include "base/sha256.h"

namespace ingot::backend::cuda {

namespace {

constexpr std::array<std::byte, 8> magic = {std::byte{'I'}, std::byte{'N'}, std::byte{'G'}, std::byte{'C'}, std::byte{'O'}, std::byte{'D'}, std::byte{'E'}, std::byte{'2'}};
constexpr size_t head = magic.size() + 2 * sizeof(Hash128);  // magic, hash of the key, hash of the code

}  // namespace

std::string CodeCache::path(std::span<const std::byte> key) const {
  std::string name;
  for (std::byte b : sha256(key)) name += fmt::format("{:02x}", static_cast<unsigned>(b));
  return folder_ + "/" + name;
}

CodeCache::CodeCache(std::string folder) : folder_(std::move(folder)) {
  if (folder_.empty()) return;
  if (auto why = make_own_folder(folder_)) {
    problem_ = "compiled code is not kept: " + *why;
    folder_.clear();
  }
}

std::optional<std::vector<std::byte>> CodeCache::find(std::span<const std::byte> key) const {
  if (folder_.empty()) return std::nullopt;
  auto bytes = read_own_file(path(key)).bytes;
  if (!bytes || bytes->size() < head) return std::nullopt;
  auto code = std::span<const std::byte>(*bytes).subspan(head);
  auto key_hash = hash128(key), code_hash = hash128(code);
  bool good = std::equal(magic.begin(), magic.end(), bytes->begin()) && std::equal(key_hash.begin(), key_hash.end(), bytes->begin() + magic.size()) &&
              std::equal(code_hash.begin(), code_hash.end(), bytes->begin() + magic.size() + sizeof(Hash128));
  if (!good) return std::nullopt;
  return std::vector<std::byte>(code.begin(), code.end());
}

void CodeCache::put(std::span<const std::byte> key, std::span<const std::byte> code) const {
  if (folder_.empty()) return;
  auto key_hash = hash128(key), code_hash = hash128(code);
  const std::span<const std::byte> parts[] = {magic, key_hash, code_hash, code};
  write_atomically(path(key), parts, own_file_mode);
}

}  // namespace ingot::backend::cuda
