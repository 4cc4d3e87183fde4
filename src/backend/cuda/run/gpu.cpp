#include "backend/cuda/run/gpu.h"

#include <algorithm>
#include <charconv>
#include <deque>

#include "backend/cuda/run/libraries.h"
#include "backend/cuda/run/tuning.h"
#include "base/machine.h"

namespace ingot::kernels {
#define X(name) std::span<const RunKernel> name##_cuda_kernels();
#include "backend/cuda/run/kernels.def"
#undef X
}  // namespace ingot::kernels

namespace ingot::backend {

namespace cuda {

namespace {

// Constants of cuda.h.
enum HostMemoryFlag : unsigned { for_all_contexts = 1, mapped = 2 };
enum MemoryType : unsigned { on_device = 2 };
enum PointerAttribute : int { memory_type = 2, device_ordinal = 9 };
enum CaptureMode : int { of_this_thread = 1 };
enum UserObjectFlag : unsigned { destroyed_at_any_time = 1 };
enum RetainFlag : unsigned { graph_takes_reference = 1 };

// Memory that the driver allocates: on the device, or pinned on the host.
class DriverMemory final : public Allocator {
 public:
  enum class Where : uint8_t { device, host };
  DriverMemory(DevicePtr device, Where where) : device_(std::move(device)), where_(where) {}
  void* allocate(size_t bytes) override {
    Device::Use use(*device_);
    Unrecorded unrecorded;
    const std::string& name = device_->properties().name;
    void* memory = nullptr;
    if (where_ == Where::host) {
      driver().check(driver().host_allocate(&memory, bytes, for_all_contexts), "allocating {} bytes of pinned host memory for {}", bytes, name);
      return memory;
    }
    Address address = 0;
    int error = driver().memory_allocate(&address, bytes);
    if (error == 0) return reinterpret_cast<void*>(address);
    size_t free = 0, total = 0;
    std::string room = driver().memory_info(&free, &total) == 0 ? fmt::format(", where {} of {} are free,", free, total) : "";
    driver().failed(error, fmt::format("allocating {} bytes on {}{}", bytes, name, room));
  }
  void release(void* memory, size_t) noexcept override {
    Device::Use use(*device_);
    Unrecorded unrecorded;
    where_ == Where::host ? driver().host_free(memory) : driver().memory_free(reinterpret_cast<Address>(memory));
  }

 private:
  DevicePtr device_;
  Where where_;
};

// The version of CUDA that compiled a plan's code, from a comment in it; 0 if there is none.
int compiled_by(std::span<const CodeImage> code) {
  constexpr std::string_view says = "Cuda compilation tools, release ";
  for (const CodeImage& c : code) {
    std::string_view text(reinterpret_cast<const char*>(c.image.data()), c.image.size());
    size_t at = text.find(says);
    if (at == std::string_view::npos) continue;
    const char *from = text.data() + at + says.size(), *end = text.data() + text.size();
    int major = 0, minor = 0;
    auto [dot, error] = std::from_chars(from, end, major);
    if (error == std::errc() && dot < end && std::from_chars(dot + 1, end, minor).ec == std::errc()) return major * 1000 + minor * 10;
  }
  return 0;
}

// Allocates Status memory for streams. Kernels of a destroyed stream may still run, and waiting for them would break recordings in progress. So a freed
// Status is reused only after many others, and the memory is never freed. It keeps its device's context, which would free it too.
class Statuses {
 public:
  Status* take(const DevicePtr& device) {
    std::lock_guard lock(mutex_);
    constexpr size_t together = gpu_tuning::allocated_statuses;
    if (free_.size() <= gpu_tuning::resting_statuses && fresh_.empty()) {
      Device::Use use(*device);
      Unrecorded unrecorded;
      void* memory = nullptr;
      driver().check(driver().host_allocate(&memory, together * sizeof(Status), for_all_contexts | mapped), "allocating memory that {} can write", device->properties().name);
      kept_.push_back(device);
      for (size_t k = 0; k < together; ++k) fresh_.push_back(new (static_cast<Status*>(memory) + k) Status);
    }
    std::deque<Status*>& from = fresh_.empty() ? free_ : fresh_;
    Status* out = from.front();
    from.pop_front();
    *out = {};
    return out;
  }
  void give_back(Status* s) {
    std::lock_guard lock(mutex_);
    free_.push_back(s);
  }

 private:
  std::mutex mutex_;
  std::deque<Status*> fresh_, free_;
  std::vector<DevicePtr> kept_;
};

Statuses& statuses() {
  static auto* all = new Statuses;  // streams may outlive static objects
  return *all;
}

// What graphs of callers held and hold no more. The driver says so in a function that may not call it, and to destroy code and device memory is to call it.
// So that function only puts them here.
class Released {
 public:
  // For the driver: `held` is a std::shared_ptr<const void> of its own.
  static void take(void* held);
  void destroy() {
    std::vector<std::shared_ptr<const void>> gone;
    {
      std::lock_guard lock(mutex_);
      gone.swap(all_);
    }
    if (gone.empty()) return;
    Unrecorded unrecorded;
    gone.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<const void>> all_;
};

Released& released() {
  static auto* all = new Released;  // graphs may outlive static objects
  return *all;
}

void Released::take(void* held) {
  std::unique_ptr<std::shared_ptr<const void>> what(static_cast<std::shared_ptr<const void>*>(held));
  std::lock_guard lock(released().mutex_);
  released().all_.push_back(std::move(*what));
}

struct Graph final : Recording {
  explicit Graph(DevicePtr d) : device(std::move(d)) {}
  ~Graph() override {
    Device::Use use(*device);
    if (exec != nullptr) driver().graph_exec_destroy(exec);
  }
  DevicePtr device;
  GraphExecHandle exec = nullptr;
};

struct EventPoint final : Point {
  explicit EventPoint(const DevicePtr& device) : event(device) {}
  Event event;
};

}  // namespace

Gpu::Gpu(int ordinal, std::span<const CodeImage> code, std::span<const Timing> timings)
    : device_(Device::open(ordinal)),
      memory_(std::make_unique<DriverMemory>(device_, DriverMemory::Where::device)),
      pinned_(std::make_unique<DriverMemory>(device_, DriverMemory::Where::host)),
      timings_(timings.begin(), timings.end()) {
  for (const Timing& t : timings) {
    if (t.machine == own_machine()) timed_[t.problem] = t.choice;
  }
  int sm = device_->properties().sm, cuda = compiled_by(code);
  // Machine code is whole for its architecture; PTX of ingot's own kernels is for later GPUs. Those of users have names with a colon.
  auto is_of_user = [](const CodeImage& c) { return std::any_of(c.kernels.begin(), c.kernels.end(), [](const std::string& k) { return k.find(':') != std::string::npos; }); };
  const bool has_machine_code = std::any_of(code.begin(), code.end(), [&](const CodeImage& c) { return !c.portable && c.runs_on(sm) && !is_of_user(c); });
  for (bool portable : {false, true}) {
    for (const CodeImage& c : code) {
      if (c.portable != portable || !c.runs_on(sm) || (portable && has_machine_code && !is_of_user(c))) continue;
      bool needed = std::any_of(c.kernels.begin(), c.kernels.end(), [&](const std::string& k) { return !module_of_.contains(k); });
      if (!needed) continue;
      modules_.push_back(std::make_unique<Module>(device_, c.image, cuda, static_cast<int>(c.architecture)));
      for (const std::string& k : c.kernels) module_of_.try_emplace(k, modules_.back().get());
    }
  }
}

Gpu::~Gpu() = default;

const RunKernel* Gpu::find(std::string_view name) const {
#define X(folder) \
  for (const RunKernel& k : kernels::folder##_cuda_kernels()) { \
    if (k.name == name) return &k; \
  }
#include "backend/cuda/run/kernels.def"
#undef X
  return nullptr;
}

bool Gpu::can_access(const void* pointer) const {
  if (pointer == nullptr) return false;
  constexpr int asked[] = {memory_type, device_ordinal};
  unsigned type = 0;  // unchanged for addresses that the driver does not know
  int ordinal = -1;
  void* values[] = {&type, &ordinal};
  Device::Use use(*device_);
  return driver().pointer_attributes(2, asked, values, reinterpret_cast<Address>(pointer)) == 0 && type == on_device && ordinal == device_->ordinal();
}

std::unique_ptr<Stream> Gpu::new_stream() const { return std::make_unique<GpuStream>(device_); }
std::unique_ptr<Stream> Gpu::new_own_stream() const { return std::make_unique<GpuStream>(device_, std::make_unique<CudaStream>(device_)); }

Function Gpu::function(const std::string& name) const {
  auto found = module_of_.find(name);
  if (found == module_of_.end()) {
    int sm = device_->properties().sm;
    throw Error(Code::version, fmt::format("the plan has no code for sm_{} of its kernel {}", sm, name))
        .fix(fmt::format("compile the model again (`ingot compile --set target=cuda:sm_{}`)", sm));
  }
  return found->second->function(name);
}

const Products& Gpu::products() const {
  std::lock_guard lock(mutex_);
  if (!products_) products_ = std::make_unique<Products>(device_, timings_);
  return *products_;
}

GpuStream::GpuStream(DevicePtr device, std::unique_ptr<CudaStream> own)
    : device_(std::move(device)), own_(std::move(own)), stream_(own_ ? own_->handle() : nullptr), status_(statuses().take(device_)) {
  released().destroy();
}

GpuStream::~GpuStream() {
  released().destroy();
  statuses().give_back(status_);
}

void GpuStream::copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  Device::Use use(*device_);
  driver().check(driver().copy(reinterpret_cast<Address>(to), reinterpret_cast<Address>(from), bytes, stream_), "copying {} bytes to or from {}", bytes,
                 device_->properties().name);
}

void GpuStream::fill(void* to, uint8_t value, size_t bytes) {
  if (bytes == 0) return;
  Device::Use use(*device_);
  driver().check(driver().fill(reinterpret_cast<Address>(to), value, bytes, stream_), "filling {} bytes of {}", bytes, device_->properties().name);
}

void GpuStream::wait() {
  {
    Device::Use use(*device_);
    driver().check(driver().stream_synchronize(stream_), "waiting for {}", device_->properties().name);
  }
  check();
}

void GpuStream::check() {
  // The device writes it, unseen by the compiler.
  const auto* seen = static_cast<const volatile uint64_t*>(&status_->code);
  Status s{seen[0], seen[1], seen[2]};
  if (s.code == 0) return;
  *status_ = {};
  if (s.code == 1) fail(Code::invalid_input, "index {} is out of range for an axis of size {}", static_cast<int64_t>(s.found), static_cast<int64_t>(s.bound));
  if (s.code == 2) fail(Code::invalid_input, "an integer is divided by zero");
  fail(Code::internal, "a kernel reports {}", s.code);
}

bool GpuStream::recorded_by_caller() const {
  if (recorder_ != nullptr && stream_ == recorder_->handle()) return false;
  Device::Use use(*device_);
  int capturing = 0;
  driver().check(driver().capture_status(stream_, &capturing), "asking whether a stream of {} is recorded", device_->properties().name);
  return capturing != 0;
}

void GpuStream::keep(std::shared_ptr<const void> what) const {
  released().destroy();
  Device::Use use(*device_);
  const Driver& d = driver();
  const std::string& name = device_->properties().name;
  int capturing = 0;
  GraphHandle graph = nullptr;
  d.check(d.capture_info(stream_, &capturing, nullptr, &graph, nullptr, nullptr), "asking for the graph that a stream of {} is recorded into", name);
  auto held = std::make_unique<std::shared_ptr<const void>>(std::move(what));
  UserObjectHandle object = nullptr;
  d.check(d.user_object_create(&object, held.get(), Released::take, 1, destroyed_at_any_time), "making an object for a graph of {}", name);
  held.release();  // the object's now
  const int error = d.graph_retain(graph, object, 1, graph_takes_reference);
  if (error != 0) d.user_object_release(object, 1);
  d.check(error, "giving an object to a graph of {}", name);
}

std::unique_ptr<Recording> GpuStream::record(FunctionRef<void()> work) {
  Device::Use use(*device_);
  const Driver& d = driver();
  if (!recorder_) recorder_ = std::make_unique<CudaStream>(device_);
  std::shared_lock together(recordings());
  StreamHandle outside = stream_;
  stream_ = recorder_->handle();
  GraphHandle graph = nullptr;
  try {
    d.check(d.capture_begin(stream_, of_this_thread), "recording work for {}", device_->properties().name);
    work();
  } catch (...) {
    d.capture_end(stream_, &graph);
    if (graph != nullptr) d.graph_destroy(graph);
    stream_ = outside;
    throw;
  }
  int ended = d.capture_end(stream_, &graph);
  stream_ = outside;
  d.check(ended, "recording work for {}", device_->properties().name);
  auto out = std::make_unique<Graph>(device_);
  int made = d.graph_instantiate(&out->exec, graph, 0);
  d.graph_destroy(graph);
  d.check(made, "preparing recorded work for {}", device_->properties().name);
  return out;
}

void GpuStream::replay(const Recording& recording) {
  Device::Use use(*device_);
  driver().check(driver().graph_launch(static_cast<const Graph&>(recording).exec, stream_), "starting recorded work on {}", device_->properties().name);
}

std::unique_ptr<Point> GpuStream::new_point() const { return std::make_unique<EventPoint>(device_); }

void GpuStream::set(Point& point) const { static_cast<EventPoint&>(point).event.record(stream_); }

void GpuStream::come_after(const Point& point) const {
  met_others_ = true;
  Device::Use use(*device_);
  driver().check(driver().stream_wait(stream_, static_cast<const EventPoint&>(point).event.handle(), 0), "making a stream of {} wait", device_->properties().name);
}

void GpuStream::mark() {
  if (marks_ == events_.size()) events_.push_back(std::make_unique<Event>(device_, true));
  events_[marks_++]->record(stream_);
}

std::vector<int64_t> GpuStream::nanoseconds() {
  std::vector<int64_t> out;
  if (marks_ > 0) events_[marks_ - 1]->synchronize();
  for (size_t i = 1; i < marks_; ++i) out.push_back(static_cast<int64_t>(Event::seconds(*events_[i - 1], *events_[i]) * nanoseconds_of_second));
  marks_ = 0;
  return out;
}

}  // namespace cuda

}  // namespace ingot::backend
