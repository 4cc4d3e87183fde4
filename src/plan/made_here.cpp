#include "plan/made_here.h"

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/own_file.h"
#include "base/sha256.h"

namespace ingot::plan {

namespace {

// The path of the plan's marker file, in a folder that no other user can write; "" if there is none.
std::string path_of(std::span<const std::byte> metadata) {
  const std::string folder = cache_folder("plans");
  if (folder.empty()) return "";
  if (auto why = make_own_folder(folder)) {
    say_once("it is not known which plans' device code was compiled here: " + *why);
    return "";
  }
  std::string path = folder + "/";
  for (std::byte b : sha256(metadata)) path += fmt::format("{:02x}", static_cast<unsigned>(b));
  return path;
}

}  // namespace

bool made_here(std::span<const std::byte> metadata) {
  const std::string path = path_of(metadata);
  try {
    return !path.empty() && read_own_file(path).bytes.has_value();
  } catch (const Error&) {
    return false;  // an unreadable file proves nothing
  }
}

void remember_made_here(std::span<const std::byte> metadata) {
  const std::string path = path_of(metadata);
  if (path.empty()) return;
  try {
    write_atomically(path, {}, own_file_mode);
  } catch (const Error& e) {
    say_once("it is not known which plans' device code was compiled here: " + e.message);
  }
}

}  // namespace ingot::plan
