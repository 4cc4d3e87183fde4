// Signed plan files: Ed25519 by libsodium, which is found at run time, over the SHA-256 of a whole file. docs/security.md says what a signature promises.
#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace ingot::plan {

struct Header;
using PublicKey = std::array<std::byte, 32>;

// The last part of a signed file (docs/plan_format.md).
struct Signature {
  std::array<char, 8> kind;
  PublicKey key;
  std::array<std::byte, 64> value;
};
static_assert(sizeof(Signature) == 104);

// "ed25519:" and 64 hexadecimal digits.
std::string text_of(const PublicKey&);

// Keys that a caller trusts. Each is a key's text, or the path of a file with such texts, one a line; empty lines and those that begin with # do not count.
// Error (invalid_input) for what is no key, and if there is none.
std::vector<PublicKey> read_keys(std::span<const std::string> keys);

// Error (format) unless `signature` is one by one of the keys, of a file with this header and these bytes after it.
void check_signature(const Header&, std::span<const std::byte> rest, const Signature& signature, std::span<const PublicKey> keys);

// Writes the plan file `from` with a signature to `to`, in place of one that it has. `key` is a file that make_keys wrote. Error (format) if the file is damaged.
void sign_file(const std::string& from, const std::string& key, const std::string& to);

// Writes a new secret key to "PATH.key", for this user alone, and its public key to "PATH.pub". Gives the public key's text. Error (io) if one of them is there.
std::string make_keys(const std::string& path);

}  // namespace ingot::plan
