#include "backend/cuda/run/cufft.h"

#include "backend/cuda/run/libraries.h"
#include "base/own_file.h"

namespace ingot::backend::cuda {

namespace {

struct Library {
#define X(name, symbol, arguments) int(*name) arguments;
#include "backend/cuda/run/cufft.def"
};

const Library& library() {
  static const Library l = [] {
    SharedLibrary found(cufft_library);
    Library t{};
#define X(name, symbol, arguments) found.find(t.name, #symbol);
#include "backend/cuda/run/cufft.def"
    return t;
  }();
  return l;
}

void check(int status, const char* what) {
  enum Result : int { no_memory = 2 };  // of cufft.h
  if (status != 0) fail(status == no_memory ? Code::out_of_memory : Code::device, "cuFFT's {} failed: status {}", what, status);
}

}  // namespace

bool has_cufft() {
  static const bool found = [] {
    try {
      library();
      return true;
    } catch (const Error& e) {
      say_once(fmt::format("{}: ingot's own kernels compute them. For faster ones: {}", e.message, e.remedy));
      return false;
    }
  }();
  return found;
}

Transform::Transform(DevicePtr device) : device_(std::move(device)) {
  Device::Use use(*device_);
  Unrecorded unrecorded;
  check(library().create(&plan_), "start");
}

Transform::Transform(DevicePtr device, const kernels::CudaTransform& t) : Transform(std::move(device)) {
  if (t.inverse || t.to_real) direction_ = 1;
  Device::Use use(*device_);
  Unrecorded unrecorded;
  check(library().allocate(plan_, 0), "setting");
  // Constants of library_types.h.
  const int real = t.wide ? 1 : 0, complex = t.wide ? 5 : 4;
  auto numbers = [](const std::vector<int64_t>& of) { return std::vector<long long>(of.begin(), of.end()); };
  std::vector<long long> lengths = numbers(t.lengths), from = numbers(t.from.embedding), to = numbers(t.to.embedding);
  check(library().make(plan_, static_cast<int>(lengths.size()), lengths.data(), from.data(), t.from.step, t.from.distance, t.of_real ? real : complex, to.data(), t.to.step,
                       t.to.distance, t.to_real ? real : complex, t.count, &workspace_, complex),
        "plan");
}

Transform::~Transform() {
  Device::Use use(*device_);
  Unrecorded unrecorded;
  library().destroy(plan_);
}

void Transform::run(Address from, Address to, Address workspace, StreamHandle stream) const {
  Device::Use use(*device_);
  auto pointer = [](Address x) { return reinterpret_cast<void*>(x); };
  check(library().set_workspace(plan_, pointer(workspace)), "setting");
  check(library().set_stream(plan_, stream), "setting");
  check(library().run(plan_, pointer(from), pointer(to), direction_), "transform");
}

}  // namespace ingot::backend::cuda
