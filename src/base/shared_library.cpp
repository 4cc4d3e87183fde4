#include "base/shared_library.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <mutex>

#include "base/error.h"

namespace ingot {

namespace {

struct Folders {
  std::mutex mutex;
  std::vector<std::string> list;
};

Folders& folders() {
  static Folders f;
  return f;
}

std::vector<std::string> searched_folders() {
  std::vector<std::string> out;
  if (const char* text = std::getenv("INGOT_LIBRARY_PATH")) {
    std::string_view rest = text;
    while (!rest.empty()) {
      size_t end = rest.find(':');
      if (end != 0) out.emplace_back(rest.substr(0, end));
      rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    }
  }
  std::lock_guard lock(folders().mutex);
  out.insert(out.end(), folders().list.begin(), folders().list.end());
  return out;
}

std::string path_of(void* handle, std::string_view fallback) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr && map->l_name[0] != 0) return map->l_name;
  return std::string(fallback);
}

}  // namespace

void set_library_folders(std::vector<std::string> list) {
  std::lock_guard lock(folders().mutex);
  folders().list = std::move(list);
}

SharedLibrary::SharedLibrary(const LibraryNames& names) : names_(names) {
  std::string reason;
  auto take = [&](const std::string& name, int flags) {
    handle_ = dlopen(name.c_str(), flags);
    if (handle_ == nullptr) {
      const char* why = dlerror();
      // Prefer the error of a library that exists but cannot be loaded to that of a missing one.
      if (why != nullptr && (flags & RTLD_NOLOAD) == 0 && (reason.empty() || std::string_view(why).find("No such file") == std::string_view::npos)) reason = why;
      return false;
    }
    path_ = path_of(handle_, name);
    return true;
  };
  // torch has its own copies of libraries; a second copy in a process causes trouble.
  for (std::string_view soname : names.sonames) {
    if (take(std::string(soname), RTLD_NOW | RTLD_NOLOAD)) return;
  }
  std::vector<std::string> listed = searched_folders();
  for (std::string_view soname : names.sonames) {
    if (take(std::string(soname), RTLD_NOW)) return;
    for (const std::string& folder : listed) {
      if (take(fmt::format("{}/{}", folder, soname), RTLD_NOW)) return;
      for (std::string_view package : names.packages) {
        if (take(fmt::format("{}/{}/{}", folder, package, soname), RTLD_NOW)) return;
      }
    }
  }
  throw Error(Code::device, fmt::format("{} was not found on this machine ({})", names.name, reason.empty() ? "no library of that name" : reason)).fix(std::string(names.remedy));
}

void SharedLibrary::load_neighbour(const std::string& soname) const {
  size_t slash = path_.rfind('/');
  if (slash != std::string::npos) dlopen((path_.substr(0, slash + 1) + soname).c_str(), RTLD_NOW);
}

void* SharedLibrary::find(const char* symbol) const {
  void* found = dlsym(handle_, symbol);
  if (found == nullptr)
    throw Error(Code::version, fmt::format("{} ({}) has no function {}: it is too old", names_.name, path_, symbol))
        .fix(std::string(names_.too_old.empty() ? names_.remedy : names_.too_old));
  return found;
}

}  // namespace ingot
