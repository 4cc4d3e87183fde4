#include <charconv>

#include "backend/cuda/run/cublaslt.h"
#include "backend/cuda/run/cufft.h"
#include "backend/cuda/run/driver.h"
#include "backend/cuda/run/gpu.h"
#include "backend/cuda/run/libraries.h"
#include "backend/run/registry.h"
#include "base/error.h"

namespace ingot::backend {

namespace cuda {

namespace {

// "cuda" is device 0.
std::optional<int> find(std::string_view name) {
  if (name == "cuda") return 0;
  if (!name.starts_with("cuda:")) return std::nullopt;
  int number = 0;
  const char* last = name.data() + name.size();
  auto [end, error] = std::from_chars(name.data() + 5, last, number);
  return error == std::errc() && end == last && number >= 0 ? std::optional(number) : std::nullopt;
}

Target target_of(int number) { return cuda_target(Device::open(number)->properties().sm); }

std::shared_ptr<const Backend> open(int number, std::span<const CodeImage> code, std::span<const Timing> timings) { return std::make_shared<Gpu>(number, code, timings); }

FoundLibrary find_driver() {
  int version = 0;
  driver().check(driver().driver_version(&version), "reading the driver's version");
  return {SharedLibrary(driver_library).path(), "CUDA " + cuda_text(version)};
}

FoundLibrary find_nvrtc() {
  const SharedLibrary library(nvrtc_library);
  int (*version)(int* major, int* minor) = nullptr;
  int major = 0, minor = 0;
  library.find(version, "nvrtcVersion");
  if (version(&major, &minor) != 0) fail(Code::device, "NVRTC ({}) does not say its version", library.path());
  return {library.path(), fmt::format("{}.{}", major, minor)};
}

FoundLibrary find_cublaslt() {
  const SharedLibrary library(cublaslt_library);
  size_t (*version)() = nullptr;
  library.find(version, "cublasLtGetVersion");
  return {library.path(), std::to_string(version())};
}

FoundLibrary find_cufft() {
  const SharedLibrary library(cufft_library);
  int (*version)(int* version) = nullptr;
  int number = 0;
  library.find(version, "cufftGetVersion");
  if (version(&number) != 0) fail(Code::device, "cuFFT ({}) does not say its version", library.path());
  return {library.path(), std::to_string(number)};
}

constexpr DeviceLibrary libraries[] = {{"driver", find_driver}, {"NVRTC", find_nvrtc}, {"cuBLASLt", find_cublaslt}, {"cuFFT", find_cufft}};

std::vector<DeviceDescription> describe() {
  std::vector<DeviceDescription> out;
  for (int i = 0; i < device_count(); ++i) {
    const DeviceProperties p = Device::open(i)->properties();
    out.push_back({p.name, fmt::format("sm_{}", p.sm), p.memory});
  }
  return out;
}

}  // namespace

extern const Devices devices;
const Devices devices{Target::Kind::cuda, "this GPU", true, find, target_of, open, libraries, describe};

}  // namespace cuda

}  // namespace ingot::backend
