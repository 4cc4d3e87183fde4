#include "backend/cuda/run/driver.h"

#include "backend/cuda/run/libraries.h"
#include "base/fork.h"

namespace ingot::backend::cuda {

namespace {

// The oldest CUDA that a driver may be for.
enum Version : int { oldest_version = 11040 };
enum : int { not_initialized = 3 };  // of cuda.h

// After a fork the parent's driver must not be called: it may wait for threads that do not exist here. These stubs replace its functions.
template <class F>
struct Refused;
template <class... A>
struct Refused<int (*)(A...)> {
  static int call(A...) { return not_initialized; }
};

Driver refused() {
  Driver d{};
#define X(name, symbol, arguments) d.name = Refused<decltype(d.name)>::call;
#include "backend/cuda/run/driver.def"
  return d;
}

Driver load() {
  // Not static: after a failure the driver may be looked for again.
  SharedLibrary library(driver_library);
  Driver d{};
  library.find(d.driver_version, "cuDriverGetVersion");
  int version = 0;
  if (d.driver_version(&version) == 0 && version < oldest_version) {
    throw Error(Code::version, fmt::format("{} ({}) is one for CUDA {}: it is too old", driver_library.name, library.path(), cuda_text(version)))
        .fix(std::string(driver_library.too_old));
  }
#define X(name, symbol, arguments) library.find(d.name, #symbol);
#include "backend/cuda/run/driver.def"
  d.check(d.init(0), "starting NVIDIA's driver");
  return d;
}

}  // namespace

std::string cuda_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

void Driver::failed(int error, const std::string& what) const {
  enum Result : int { no_memory = 2, no_device = 100, no_binary = 209 };
  if (error == not_initialized && fork_count() > 0) {
    throw Error(Code::device, fmt::format("{} failed: this process was forked from one that had used CUDA, which does not work in a child", what))
        .fix("start it anew: multiprocessing.get_context(\"spawn\"), or fork before CUDA is used");
  }
  const char *name = nullptr, *text = nullptr;
  if (error_name(error, &name) != 0 || name == nullptr) name = "an unknown error";
  if (error_text(error, &text) != 0 || text == nullptr) text = "no text";
  Error e(error == no_memory ? Code::out_of_memory : Code::device, fmt::format("{} failed: {} ({}): {}", what, name, error, text));
  if (error == no_memory) e.fix("use smaller inputs, or free device memory that other programs or tensors hold");
  if (error == no_device) e.fix("no GPU is visible: check nvidia-smi and CUDA_VISIBLE_DEVICES, or run on the CPU");
  if (error == no_binary) e.fix("the code is for another GPU: compile the plan for this one");
  throw e;
}

namespace {

struct Started {
  Driver driver = load();
  uint32_t forks = fork_count();
};
const Started& started() {
  static const Started s;
  return s;
}

}  // namespace

bool driver_usable() { return started().forks == fork_count(); }

const Driver& driver() {
  static const Driver none = refused();
  return driver_usable() ? started().driver : none;
}

}  // namespace ingot::backend::cuda
