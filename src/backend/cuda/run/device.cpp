#include "backend/cuda/run/device.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <mutex>

#include "backend/cuda/kernels/run/launches.h"
#include "backend/cuda/run/hardware.h"
#include "backend/cuda/run/tuning.h"

namespace ingot::backend::cuda {

namespace {

// Constants of cuda.h.
enum DeviceAttribute : int {
  multiprocessor_count = 16,
  l2_bytes = 38,
  threads_per_multiprocessor = 39,
  capability_major = 75,
  capability_minor = 76,
  shared_per_multiprocessor = 81,
  shared_per_block = 97
};
enum FunctionAttribute : int { local_size = 3, register_count = 4, dynamic_shared = 8 };
enum ModuleOption : int { error_log = 5, error_log_bytes = 6 };
enum LaunchOption : int { programmatic_serialization = 6 };
enum EventFlag : unsigned { event_timed = 0, event_untimed = 2 };
enum StreamFlag : unsigned { non_blocking = 1 };  // not synchronised with the default stream

}  // namespace

int device_count() {
  int n = 0;
  driver().check(driver().device_count(&n), "counting the GPUs");
  return n;
}

std::shared_ptr<const Device> Device::open(int ordinal) {
  int count = device_count();
  if (count == 0) throw Error(Code::device, "this process sees no GPU").fix("check nvidia-smi and CUDA_VISIBLE_DEVICES, or run on the CPU");
  if (ordinal < 0 || ordinal >= count) {
    throw Error(Code::invalid_input, fmt::format("there is no GPU number {}: this process sees {}", ordinal, count))
        .fix("they are counted from 0; CUDA_VISIBLE_DEVICES may hide some");
  }
  return std::shared_ptr<const Device>(new Device(ordinal));
}

Device::Device(int ordinal) : ordinal_(ordinal) {
  const Driver& d = driver();
  d.check(d.device_get(&device_, ordinal), "opening GPU {}", ordinal);
  auto attribute = [&](int which) {
    int v = 0;
    d.check(d.device_attribute(&v, which, device_), "reading attribute {} of GPU {}", which, ordinal);
    return v;
  };
  std::array<char, 256> name{};
  d.check(d.device_name(name.data(), static_cast<int>(name.size()) - 1, device_), "reading the name of GPU {}", ordinal);
  properties_.name = name.data();
  properties_.sm = attribute(capability_major) * 10 + attribute(capability_minor);
  properties_.multiprocessors = attribute(multiprocessor_count);
  properties_.threads = attribute(threads_per_multiprocessor);
  properties_.l2 = static_cast<size_t>(attribute(l2_bytes));
  properties_.shared_block = static_cast<size_t>(attribute(shared_per_block));
  properties_.shared_multiprocessor = static_cast<size_t>(attribute(shared_per_multiprocessor));
  d.check(d.device_memory(&properties_.memory, device_), "reading the memory size of GPU {}", ordinal);
  d.check(d.driver_version(&properties_.driver), "reading the driver's version");
  d.check(d.context_retain(&context_, device_), "starting GPU {} ({})", ordinal, properties_.name);
}

Device::~Device() { driver().context_release(device_); }

size_t Device::free_memory() const {
  Use use(*this);
  size_t free = 0, total = 0;
  driver().check(driver().memory_info(&free, &total), "asking {} for its free memory", properties_.name);
  return free;
}

std::shared_mutex& recordings() {
  static std::shared_mutex mutex;
  return mutex;
}

void Device::synchronize() const {
  Use use(*this);
  std::lock_guard alone(recordings());
  driver().check(driver().context_synchronize(), "waiting for {}", properties_.name);
}

Device::Use::Use(const Device& device) {
  if (!driver_usable()) return;  // using it will give the error; freeing is up to the parent process
  Context now = nullptr;
  // Usually it is current already, and asking is cheaper than pushing.
  if (driver().context_current(&now) == 0 && now == device.context_) return;
  const int error = driver().context_push(device.context_);
  // The process ends and the driver has freed everything: destructors have nothing to do, and other calls return this error themselves.
  enum Result : int { shut_down = 4 };
  if (error == shut_down) return;
  driver().check(error, "using {}", device.properties_.name);
  pushed_ = true;
}

Device::Use::~Use() {
  Context was = nullptr;
  if (pushed_) driver().context_pop(&was);
}

Unrecorded::Unrecorded() : mode_(2) { driver().capture_mode(&mode_); }  // relaxed; the driver returns the previous mode

Unrecorded::~Unrecorded() { driver().capture_mode(&mode_); }

DeviceMemory::DeviceMemory(DevicePtr device, size_t bytes) : device_(std::move(device)), size_(bytes) {
  if (bytes == 0) return;
  Device::Use use(*device_);
  driver().check(driver().memory_allocate(&address_, bytes), "allocating {} bytes on {}", bytes, device_->properties().name);
}

DeviceMemory::~DeviceMemory() {
  if (address_ == 0) return;
  Device::Use use(*device_);
  driver().memory_free(address_);
}

void DeviceMemory::inside(size_t offset, size_t bytes) const {
  if (offset > size_ || bytes > size_ - offset) fail(Code::internal, "a copy of {} bytes at {} leaves device memory of {} bytes", bytes, offset, size_);
}

void DeviceMemory::copy_from(const void* host, size_t bytes, StreamHandle stream, size_t offset) {
  inside(offset, bytes);
  if (bytes == 0) return;
  Device::Use use(*device_);
  driver().check(driver().copy_to_device(address_ + offset, host, bytes, stream), "copying {} bytes to {}", bytes, device_->properties().name);
}

void DeviceMemory::copy_to(void* host, size_t bytes, StreamHandle stream, size_t offset) const {
  inside(offset, bytes);
  if (bytes == 0) return;
  Device::Use use(*device_);
  driver().check(driver().copy_to_host(host, address_ + offset, bytes, stream), "copying {} bytes from {}", bytes, device_->properties().name);
}

void DeviceMemory::fill(uint8_t value, StreamHandle stream) {
  if (size_ == 0) return;
  Device::Use use(*device_);
  driver().check(driver().fill(address_, value, size_, stream), "filling {} bytes on {}", size_, device_->properties().name);
}

void copy_on_device(const Device& device, Address to, Address from, size_t bytes, StreamHandle stream) {
  if (bytes == 0) return;
  Device::Use use(device);
  driver().check(driver().copy_on_device(to, from, bytes, stream), "copying {} bytes on {}", bytes, device.properties().name);
}

CudaStream::CudaStream(DevicePtr device) : device_(std::move(device)) {
  Device::Use use(*device_);
  driver().check(driver().stream_create(&handle_, non_blocking), "making a stream on {}", device_->properties().name);
}

CudaStream::~CudaStream() {
  Device::Use use(*device_);
  driver().stream_destroy(handle_);
}

void CudaStream::synchronize() const {
  Device::Use use(*device_);
  driver().check(driver().stream_synchronize(handle_), "waiting for a stream of {}", device_->properties().name);
}

void CudaStream::wait(const Event& event) const {
  Device::Use use(*device_);
  driver().check(driver().stream_wait(handle_, event.handle(), 0), "making a stream of {} wait", device_->properties().name);
}

Event::Event(DevicePtr device, bool timed) : device_(std::move(device)) {
  Device::Use use(*device_);
  driver().check(driver().event_create(&handle_, timed ? event_timed : event_untimed), "making an event on {}", device_->properties().name);
}

Event::~Event() {
  Device::Use use(*device_);
  driver().event_destroy(handle_);
}

void Event::record(StreamHandle stream) const {
  Device::Use use(*device_);
  driver().check(driver().event_record(handle_, stream), "recording an event on {}", device_->properties().name);
}

void Event::synchronize() const {
  Device::Use use(*device_);
  driver().check(driver().event_synchronize(handle_), "waiting for {}", device_->properties().name);
}

double Event::seconds(const Event& from, const Event& to) {
  Device::Use use(*from.device_);
  float milliseconds = 0;
  driver().check(driver().event_elapsed(&milliseconds, from.handle_, to.handle_), "timing {}", from.device_->properties().name);
  return static_cast<double>(milliseconds) * 1e-3;
}

void Function::launch(const LaunchShape& shape, std::span<const std::byte> parameters, StreamHandle stream, std::span<const size_t> places) const {
  Device::Use use(*device_);
  const Driver& d = driver();
  if (shape.shared > hardware::shared_without_asking) {
    d.check(d.function_set_attribute(handle_, dynamic_shared, static_cast<int>(shape.shared)), "giving {} bytes of shared memory to {}", shape.shared, name_);
  }
  std::array<void*, kernels::launch_tuning::max_parameters> pointers{const_cast<std::byte*>(parameters.data())};  // only read
  for (size_t k = 0; k < places.size(); ++k) pointers.at(k) = const_cast<std::byte*>(parameters.data()) + places[k];
  LaunchConfig config;
  config.gx = shape.grid;
  config.gy = shape.grid_y;
  config.gz = shape.grid_z;
  config.bx = shape.block;
  config.by = shape.block_y;
  config.bz = shape.block_z;
  config.shared = shape.shared;
  config.stream = stream;
  LaunchAttribute overlaps;
  overlaps.id = programmatic_serialization;
  overlaps.yes = 1;
  config.attributes = &overlaps;
  const bool few_waves = std::max(shape.grid, shape.work_tiles) <= gpu_tuning::max_overlapped_waves * static_cast<uint32_t>(device_->properties().multiprocessors);
  config.attribute_count = shape.overlaps && waits_ && few_waves ? 1 : 0;
  d.check(d.launch(&config, handle_, pointers.data(), nullptr), "starting {} with {} blocks of {} threads on {}", name_, shape.grid, shape.block, device_->properties().name);
}

int Function::registers() const {
  Device::Use use(*device_);
  int v = 0;
  driver().check(driver().function_attribute(&v, register_count, handle_), "asking for the registers of {}", name_);
  return v;
}

int Function::local_bytes() const {
  Device::Use use(*device_);
  int v = 0;
  driver().check(driver().function_attribute(&v, local_size, handle_), "asking for the local memory of {}", name_);
  return v;
}

Module::Module(DevicePtr device, std::span<const std::byte> image, int cuda, int architecture) : device_(std::move(device)), waits_(architecture >= 90) {
  Device::Use use(*device_);
  std::array<char, gpu_tuning::log_bytes> log{};
  int names[] = {error_log, error_log_bytes};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size() - 1)};
  int error = driver().module_load(&handle_, image.data(), 2, names, values);
  if (error == 0) return;
  const DeviceProperties& p = device_->properties();
  std::string what = fmt::format("loading {} bytes of code on {} (sm_{})", image.size(), p.name, p.sm);
  constexpr int refused[] = {200, 209, 218, 222};  // the driver does not know the image, the GPU, PTX or its version
  if (cuda > p.driver && std::find(std::begin(refused), std::end(refused), error) != std::end(refused)) {
    const char* name = nullptr;
    if (driver().error_name(error, &name) != 0 || name == nullptr) name = "an unknown error";
    throw Error(Code::version,
                fmt::format("{} failed: it was compiled by CUDA {}, and the driver is one for CUDA {} ({}, {})", what, cuda_text(cuda), cuda_text(p.driver), name, error))
        .fix(fmt::format("update NVIDIA's driver to one for CUDA {} or later, or compile the plan again with NVRTC of CUDA {} or earlier", cuda_text(cuda), cuda_text(p.driver)));
  }
  std::string_view text = log.data();
  driver().failed(error, fmt::format("{}{}{}", what, text.empty() ? "" : ": ", text));
}

Module::~Module() {
  Device::Use use(*device_);
  driver().module_unload(handle_);
}

// A registered kernel is called CODE:NAME, since kernels of several texts may have the same name.
Function Module::function(const std::string& name) const {
  Device::Use use(*device_);
  const std::string entry = name.substr(name.rfind(':') + 1);
  Function f;
  f.device_ = device_;
  f.name_ = name;
  f.waits_ = waits_;
  driver().check(driver().module_function(&f.handle_, handle_, entry.c_str()), "looking for the kernel {}", name);
  return f;
}

}  // namespace ingot::backend::cuda
