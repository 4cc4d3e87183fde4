// The format of a plan file: a header of 112 bytes, metadata, zeros up to a page, then weights, each padded with zeros to 64 bytes. Nothing else.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace ingot::plan {

inline constexpr std::array<char, 8> file_magic = {'i', 'n', 'g', 'o', 't', 'p', 'l', '\n'};
inline constexpr uint32_t file_version = 15;
// Oldest readable version: the graphs of such files are read, and their programs are compiled again (Plan::outdated).
inline constexpr uint32_t oldest_file_version = 5;
inline constexpr size_t page = 4096;

struct Header {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t reserved;
  uint64_t metadata_offset, metadata_bytes;
  uint64_t weights_offset, weights_bytes;
  std::array<std::byte, 32> metadata_hash;
  uint64_t weights_hash;
  uint64_t header_hash;  // over the header, with this field as 0
  uint64_t unused[2];
};
static_assert(sizeof(Header) == 112);

uint64_t header_hash(Header);

}  // namespace ingot::plan
