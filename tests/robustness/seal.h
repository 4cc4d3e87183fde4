// Makes changed bytes a plan again as far as checksums go, so that what is behind them is tested too.
#pragma once
#include <cstddef>
#include <cstring>
#include <span>

#include "base/hash.h"
#include "plan/file.h"

namespace ingot::plan {

// False when the header leaves no metadata to hash.
inline bool seal(std::span<std::byte> file) {
  Header h;
  if (file.size() < sizeof h) return false;
  std::memcpy(&h, file.data(), sizeof h);
  if (h.metadata_bytes > file.size() - sizeof h) return false;
  h.magic = file_magic;
  h.major = format_major;
  h.minor = format_minor;
  h.programs = program_revision;
  h.metadata_hash = hash128(file.subspan(sizeof h, h.metadata_bytes));
  h.header_hash = header_hash(h);
  std::memcpy(file.data(), &h, sizeof h);
  return true;
}

}  // namespace ingot::plan
