#include "backend/cuda/run/symbols.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <mutex>

#include "base/error.h"

namespace ingot::backend::cuda {

namespace {

constexpr std::string_view driver_sonames[] = {"libcuda.so.1"};
constexpr std::string_view nvrtc_sonames[] = {"libnvrtc.so.13", "libnvrtc.so.12"}, nvrtc_packages[] = {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"};
constexpr std::string_view cublaslt_sonames[] = {"libcublasLt.so.13", "libcublasLt.so.12"}, cublaslt_packages[] = {"nvidia/cu13/lib", "nvidia/cublas/lib"};
constexpr std::string_view cufft_sonames[] = {"libcufft.so.12", "libcufft.so.11"}, cufft_packages[] = {"nvidia/cu13/lib", "nvidia/cufft/lib"};

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

constexpr LibraryNames driver_library{"NVIDIA's driver (libcuda.so.1)",
                                      driver_sonames,
                                      {},
                                      "install NVIDIA's driver for this GPU (in a container: start it with the GPU passed in, such as --gpus all), or run on the CPU",
                                      "update NVIDIA's driver to one for CUDA 11.4 or later, or run on the CPU"};
constexpr LibraryNames nvrtc_library{"NVRTC (libnvrtc.so.13), which compiles code for the GPU,", nvrtc_sonames, nvrtc_packages,
                                     "`pip install nvidia-cuda-nvrtc` (90 MB; a GPU is not needed), or name the folder that holds it in INGOT_LIBRARY_PATH"};
constexpr LibraryNames cublaslt_library{"cuBLASLt (libcublasLt.so.13), which multiplies matrices on the GPU,", cublaslt_sonames, cublaslt_packages,
                                        "`pip install nvidia-cublas`, or name the folder that holds it in INGOT_LIBRARY_PATH"};
constexpr LibraryNames cufft_library{"cuFFT (libcufft.so.12), which computes Fourier transforms on the GPU,", cufft_sonames, cufft_packages,
                                     "`pip install nvidia-cufft`, or name the folder that holds it in INGOT_LIBRARY_PATH"};

void set_folders(std::vector<std::string> list) {
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

}  // namespace ingot::backend::cuda
