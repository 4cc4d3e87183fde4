// The format of a plan file, version 1 (docs/plan_format.md): a header of 128 bytes, metadata, zeros up to a page, then weights, each padded with zeros to 64 bytes,
// and a signature if there is one. Nothing else. Numbers are little-endian.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/hash.h"
#include "base/plan_mark.h"
#include "plan/plan.h"

namespace ingot::plan {

inline constexpr std::array<char, 8> file_magic = plan_mark;
// What files from before version 1 begin with; a number of 32 bits follows. They are no longer read.
inline constexpr std::array<char, 8> magic_before_1 = {'i', 'n', 'g', 'o', 't', 'p', 'l', '\n'};

// A change that readers of this version would misread makes it one more, with a reader for each version before.
inline constexpr uint16_t format_major = 1;
// An addition that a reader must know makes it one more. A file has the least number whose readers know all that is in it; they ignore what they do not know.
inline constexpr uint16_t format_minor = 0;
// What steps and their constants mean. A change after which programs do not run as before, or new ones do not run in builds with the same number, makes it one
// more: programs of another number are compiled again from the plan's graphs (Plan::outdated).
inline constexpr uint32_t program_revision = 3;
inline constexpr size_t page = 4096;

struct Header {
  std::array<char, 8> magic;
  uint16_t major, minor;
  uint32_t programs;           // program_revision
  uint64_t metadata_bytes;     // the metadata follow the header
  uint64_t weights_bytes;      // the weights begin at the next page
  uint64_t signature_bytes;    // after the weights: 0, or that of a Signature (signature.h)
  uint64_t reserved[6];        // zeros
  Hash128 metadata_hash;       // of the metadata
  Hash128 weights_hash;        // of the section of weights, also if it is left out
  uint64_t header_hash;        // hash64 of the bytes before it

  uint64_t weights_offset() const { return (sizeof(Header) + metadata_bytes + page - 1) / page * page; }
};
static_assert(sizeof(Header) == 128);

uint64_t header_hash(const Header&);

// The hash of a section with these weights, by index in Plan::weights.
Hash128 weights_hash(const Plan&, std::span<const size_t> weights);

}  // namespace ingot::plan
