// Shared libraries of the GPU, found when they are first needed: ingot links none of them, so one binary runs with and
// without a GPU.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::backend::cuda {

// Folders searched after the system's own: folders that hold libraries, or Python's site-packages (whose nvidia/ packages are
// known). Those of the environment variable INGOT_LIBRARY_PATH (colons between them) come first.
void set_folders(std::vector<std::string> folders);

struct LibraryNames {
  std::string_view name;                       // for people
  std::span<const std::string_view> sonames;   // the best first
  std::span<const std::string_view> packages;  // folders below site-packages
  std::string_view remedy;
  std::string_view too_old = {};               // the remedy for one without a function; empty: the same
};

extern const LibraryNames driver_library, nvrtc_library, cublaslt_library;

class SharedLibrary {
 public:
  // Takes the library when this process has it already, else the first one found. Error (device) saying what is missing. It
  // stays loaded: the driver and its libraries do not survive being unloaded.
  explicit SharedLibrary(const LibraryNames&);
  // Error (version) when the library has no such function.
  template <class Function>
  void find(Function*& function, const char* symbol) const {
    function = reinterpret_cast<Function*>(find(symbol));
  }
  const std::string& path() const { return path_; }
  // A library that this one opens by name later and would not find. Nothing happens when it is not in the same folder.
  void load_neighbour(const std::string& soname) const;

 private:
  void* find(const char* symbol) const;
  const LibraryNames& names_;
  void* handle_ = nullptr;
  std::string path_;
};

}  // namespace ingot::backend::cuda
