// Finds shared libraries when they are first needed: those of a GPU, and libsodium. ingot links none of them, so one binary runs with and without them.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

// Folders to search after the system's own: folders with libraries, or Python's site-packages (whose nvidia/ packages are known). Those of the environment
// variable INGOT_LIBRARY_PATH (separated by colons) come first.
void set_library_folders(std::vector<std::string> folders);

struct LibraryNames {
  std::string_view name;                       // for messages
  std::span<const std::string_view> sonames;   // in order of preference
  std::span<const std::string_view> packages;  // folders in site-packages
  std::string_view remedy;
  std::string_view too_old = {};               // what to do if a function is missing; empty: the same
};

class SharedLibrary {
 public:
  // Uses the library if the process has it already, else loads the first one found. Error (device) names what is missing. It stays loaded: the
  // driver and its libraries cannot be unloaded safely.
  explicit SharedLibrary(const LibraryNames&);
  // Error (version) if the library has no such function.
  template <class Function>
  void find(Function*& function, const char* symbol) const {
    function = reinterpret_cast<Function*>(find(symbol));
  }
  const std::string& path() const { return path_; }
  // Loads a library of the same folder that this one opens later by a name that would not be found. Does nothing if it is not there.
  void load_neighbour(const std::string& soname) const;

 private:
  void* find(const char* symbol) const;
  const LibraryNames& names_;
  void* handle_ = nullptr;
  std::string path_;
};

}  // namespace ingot
