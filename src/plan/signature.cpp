#include "plan/signature.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/sha256.h"
#include "base/shared_library.h"
#include "base/text.h"
#include "plan/file.h"
#include "plan/plan.h"

namespace ingot::plan {

namespace {

constexpr std::array<char, 8> kind = {'e', 'd', '2', '5', '5', '1', '9', '\0'};
constexpr std::string_view public_prefix = "ed25519:", secret_prefix = "ed25519-secret:";

constexpr std::string_view sonames[] = {"libsodium.so.23", "libsodium.so.26", "libsodium.so"};
constexpr LibraryNames sodium_library{"libsodium, which signs plans and checks signatures,",
                                      sonames,
                                      {},
                                      "apt install libsodium23 (dnf install libsodium, conda install libsodium), or name the folder that holds it in INGOT_LIBRARY_PATH"};

// The functions of libsodium that are used, by its documentation.
struct Sodium {
  int (*sign)(unsigned char* signature, unsigned long long* size, const unsigned char* message, unsigned long long bytes, const unsigned char* secret);
  int (*verify)(const unsigned char* signature, const unsigned char* message, unsigned long long bytes, const unsigned char* key);
  int (*key_pair)(unsigned char* key, unsigned char* secret, const unsigned char* seed);
  void (*random)(void* to, size_t bytes);

  Sodium() {
    const SharedLibrary library(sodium_library);
    int (*init)() = nullptr;
    library.find(init, "sodium_init");
    library.find(sign, "crypto_sign_detached");
    library.find(verify, "crypto_sign_verify_detached");
    library.find(key_pair, "crypto_sign_seed_keypair");
    library.find(random, "randombytes_buf");
    if (init() < 0) fail(Code::device, "libsodium ({}) does not start", library.path());
  }
};

const Sodium& sodium() {
  static const Sodium found;  // after an error, the next call tries again
  return found;
}

unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* raw(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }

// What is signed for a file with this header, followed by these bytes.
std::vector<std::byte> message(const Header& header, std::span<const std::byte> rest) {
  constexpr std::string_view purpose("ingot plan 1\0", 13);
  const auto begin = std::as_bytes(std::span(purpose));
  std::vector<std::byte> out(begin.begin(), begin.end());
  Sha256 all;
  all.add(std::as_bytes(std::span(&header, 1)));
  all.add(rest);
  const auto hash = all.hash();
  out.insert(out.end(), hash.begin(), hash.end());
  return out;
}

// The 32 bytes after the prefix; nothing if the text is no such key.
std::optional<std::array<std::byte, 32>> parse(std::string_view text, std::string_view prefix) {
  std::array<std::byte, 32> out;
  if (!text.starts_with(prefix) || text.size() != prefix.size() + 2 * out.size()) return std::nullopt;
  auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
  for (size_t i = 0; i < out.size(); ++i) {
    const int high = digit(text[prefix.size() + 2 * i]), low = digit(text[prefix.size() + 2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out[i] = static_cast<std::byte>(high << 4 | low);
  }
  return out;
}

std::string print(std::string_view prefix, const std::array<std::byte, 32>& bytes) {
  std::string out(prefix);
  for (std::byte b : bytes) out += fmt::format("{:02x}", static_cast<unsigned>(b));
  return out;
}

// The lines of a file of keys.
std::vector<std::string> lines_of(const std::string& path) {
  const auto file = MappedFile::open(path, MappedFile::Access::whole);
  std::vector<std::string> out;
  std::string line;
  for (std::byte b : file->bytes()) {
    const char c = static_cast<char>(b);
    if (c == '\n')
      out.push_back(std::exchange(line, {}));
    else if (c != '\r')
      line += c;
  }
  out.push_back(line);
  std::erase_if(out, [](const std::string& s) { return s.empty() || s[0] == '#'; });
  return out;
}

struct KeyPair {
  PublicKey key;
  std::array<std::byte, 64> secret;
};

KeyPair pair_of(const std::array<std::byte, 32>& seed) {
  KeyPair out;
  sodium().key_pair(raw(out.key.data()), raw(out.secret.data()), raw(seed.data()));
  return out;
}

}  // namespace

std::string text_of(const PublicKey& key) { return print(public_prefix, key); }

std::vector<PublicKey> read_keys(std::span<const std::string> keys) {
  std::vector<PublicKey> out;
  auto add = [&](const std::string& text, const std::string& where) {
    const auto key = parse(text, public_prefix);
    if (text.starts_with(secret_prefix)) throw Error(Code::invalid_input, where + "is a secret key").fix("give the public one, NAME.pub, and show the secret one to nobody");
    const bool readable = !find_bad_utf8(text) && !has_controls(text);
    if (!key)
      throw Error(Code::invalid_input, fmt::format("{}is not a public key: {}", where, readable ? "\"" + text.substr(0, 80) + "\"" : "it is not text"))
          .fix("a key is ed25519: and 64 hexadecimal digits, as `ingot keygen` prints it");
    out.push_back(*key);
  };
  for (const std::string& each : keys) {
    if (each.starts_with(public_prefix)) {
      add(each, "this ");
    } else {
      for (const std::string& line : lines_of(each)) add(line, each + " has a line that ");
    }
  }
  if (out.empty())
    throw Error(Code::invalid_input, "no public key is given, so no signature can be trusted").fix("give the keys of those whose plans you trust, or files that hold them");
  return out;
}

void check_signature(const Header& header, std::span<const std::byte> rest, const Signature& signature, std::span<const PublicKey> keys) {
  if (signature.kind != kind) fail(Code::format, "the plan's signature is of an unknown kind");
  if (std::find(keys.begin(), keys.end(), signature.key) == keys.end()) {
    throw Error(Code::format, fmt::format("the plan is signed by {}, which is none of the keys that are trusted", text_of(signature.key)))
        .fix("get a plan from whoever you trust, or give that key if it is theirs");
  }
  const std::vector<std::byte> text = message(header, rest);
  if (sodium().verify(raw(signature.value.data()), raw(text.data()), text.size(), raw(signature.key.data())) != 0) {
    throw Error(Code::format, fmt::format("the plan is not what {} signed: it was changed later, or its signature is forged", text_of(signature.key)))
        .fix("get the plan again from whoever signed it");
  }
}

void sign_file(const std::string& from, const std::string& key, const std::string& to) {
  const auto file = MappedFile::open(from);
  const std::span<const std::byte> bytes = file->bytes();
  try {
    read(bytes, file, Trust::data);
  } catch (Error& e) {
    e.message = from + ": " + e.message;
    throw;
  }
  const std::vector<std::string> lines = lines_of(key);
  const auto seed = lines.size() == 1 ? parse(lines[0], secret_prefix) : std::nullopt;
  if (!seed) throw Error(Code::invalid_input, fmt::format("{} is not a secret key", key)).fix("`ingot keygen NAME` writes one to NAME.key");
  const KeyPair pair = pair_of(*seed);
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  const auto rest = bytes.subspan(sizeof header, bytes.size() - sizeof header - header.signature_bytes);
  header.signature_bytes = sizeof(Signature);
  header.header_hash = header_hash(header);
  Signature signature{kind, pair.key, {}};
  const std::vector<std::byte> text = message(header, rest);
  sodium().sign(raw(signature.value.data()), nullptr, raw(text.data()), text.size(), raw(pair.secret.data()));
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(&header, 1)), rest, std::as_bytes(std::span(&signature, 1))};
  write_atomically(to, parts);
}

std::string make_keys(const std::string& path) {
  const std::string secret_path = path + ".key", public_path = path + ".pub";
  for (const std::string& each : {secret_path, public_path}) {
    if (std::filesystem::exists(std::filesystem::symlink_status(each)))
      throw Error(Code::io, each + " is already there").fix("choose another name, or delete it if nothing is signed with it");
  }
  std::array<std::byte, 32> seed;
  sodium().random(seed.data(), seed.size());
  const std::string text = text_of(pair_of(seed).key), secret = print(secret_prefix, seed) + "\n", shown = text + "\n";
  constexpr unsigned for_this_user = 0600;
  const std::span<const std::byte> secret_parts[] = {std::as_bytes(std::span(secret))}, public_parts[] = {std::as_bytes(std::span(shown))};
  write_atomically(secret_path, secret_parts, for_this_user);
  write_atomically(public_path, public_parts);
  return text;
}

}  // namespace ingot::plan
