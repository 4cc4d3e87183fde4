#include "kernels/external/run/host_kernel.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/sha256.h"
#include "base/text.h"

namespace ingot::kernels {

namespace {

// The C interface numbers the types equally.
constexpr bool same(ingot_dtype c, ir::DType t) { return static_cast<int>(c) == static_cast<int>(t); }
static_assert(same(INGOT_BOOL, ir::DType::b8) && same(INGOT_INT64, ir::DType::i64) && same(INGOT_FLOAT16, ir::DType::f16) && same(INGOT_FLOAT64, ir::DType::f64));

std::string hash_of(const std::string& path) {
  std::string out;
  for (std::byte b : sha256(MappedFile::open(path, MappedFile::Access::whole)->bytes())) out += fmt::format("{:02x}", static_cast<unsigned>(b));
  return out;
}

// The library's path: as in the plan, or in a folder of INGOT_LIBRARY_PATH.
std::string find_library(const std::string& kernel, const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) return path;
  const char* list = std::getenv("INGOT_LIBRARY_PATH");
  for (std::string_view rest = list != nullptr ? list : ""; !rest.empty();) {
    const size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) {
      std::string there = (std::filesystem::path(rest.substr(0, end)) / std::filesystem::path(path).filename()).string();
      if (std::filesystem::is_regular_file(there, ignored)) return there;
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  throw Error(Code::device, fmt::format("kernel {} is in the library {}, which is not there", kernel, path))
      .fix("put it back, or name the folder that holds a file of this name in INGOT_LIBRARY_PATH");
}

struct Library {
  std::string sha256;
  void* handle = nullptr;
};

// Open libraries by path. They stay open, since a plan may call them as long as the process lives.
void* open_library(const std::string& kernel, const HostCode& code) {
  static std::mutex mutex;
  static auto* open = new std::map<std::string, Library>;
  const std::string path = find_library(kernel, code.library);
  std::lock_guard lock(mutex);
  if (auto found = open->find(path); found != open->end()) {
    if (found->second.sha256 == code.sha256) return found->second.handle;
    throw Error(Code::device, fmt::format("kernel {} needs another build of {} than the one that this process has loaded", kernel, path))
        .fix("start a new process, or give each build of the library a name of its own");
  }
  if (hash_of(path) != code.sha256) {
    throw Error(Code::device, fmt::format("{} is not the library that kernel {} was registered with: its SHA-256 is another one", path, kernel))
        .fix("register the kernel again and compile the model again, or put the library of then back");
  }
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw Error(Code::device, fmt::format("the library {} of kernel {} cannot be loaded: {}", path, kernel, dlerror())).fix("build it for this machine");
  open->emplace(path, Library{code.sha256, handle});
  return handle;
}

struct Loaded {
  ExternalArgs args;
  ingot_kernel function = nullptr;
};

std::shared_ptr<const void> load(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto out = std::make_shared<Loaded>();
  out->args = parse_external(constants, operands, sizes);
  out->function = open_host_kernel(out->args.name, out->args.host);
  return out;
}

// The call for one set of sizes, in one session; `run` fills in the data pointers.
struct Prepared {
  std::vector<ingot_tensor> inputs, outputs;
  std::vector<ingot_kernel_number> numbers;
  std::vector<std::vector<int64_t>> strides;  // of inputs, then outputs
  bool empty = false;

  // Row-major strides, also for axes of size 1, whose strides in the step may be anything.
  ingot_tensor described(const TensorRef& t) {
    std::vector<int64_t>& s = strides.emplace_back(static_cast<size_t>(t.rank), 1);
    for (size_t d = s.size(); d-- > 1;) s[d - 1] = s[d] * t.dims[d];
    return {nullptr, static_cast<ingot_dtype>(t.dtype), t.rank, t.dims, s.data()};
  }
};

Resolved resolve(const Call& call) {
  const ExternalArgs& a = static_cast<const Loaded*>(call.constants)->args;
  check_external(call, a);
  auto out = std::make_shared<Prepared>();
  for (uint32_t k : a.inputs) out->inputs.push_back(out->described(call.operands[k]));
  for (size_t k = a.inputs.size() + a.written.size(); k < call.operands.size(); ++k) out->outputs.push_back(out->described(call.operands[k]));
  out->numbers = numbers_of(a, call.sizes);
  out->empty = is_empty(call, a);
  return {0, out};
}

void run(const Call& call) {
  const auto& loaded = *static_cast<const Loaded*>(call.constants);
  const ExternalArgs& a = loaded.args;
  auto& p = *static_cast<Prepared*>(const_cast<void*>(call.prepared));  // of this session only
  if (p.empty) return;
  for (size_t k = 0; k < a.inputs.size(); ++k) p.inputs[k].data = call.operands[a.inputs[k]].data;
  for (size_t k = 0; k < a.written.size(); ++k) {
    const TensorRef& now = call.operands[a.inputs.size() + k];
    void*& data = p.inputs[a.written[k]].data;
    if (data != now.data) std::memcpy(now.data, data, static_cast<size_t>(numel(now)) * ir::size_of(now.dtype));
    data = now.data;
  }
  for (size_t k = 0; k < p.outputs.size(); ++k) p.outputs[k].data = call.operands[a.inputs.size() + a.written.size() + k].data;
  call_host_kernel(loaded.function, a.name, p.inputs, p.outputs, p.numbers, *call.workers);
}

}  // namespace

ingot_kernel open_host_kernel(const std::string& kernel, const HostCode& code) {
  void* found = dlsym(open_library(kernel, code), code.symbol.c_str());
  if (found == nullptr) {
    throw Error(Code::device, fmt::format("the library {} of kernel {} has no function {}", code.library, kernel, code.symbol)).fix("declare it extern \"C\", and export it");
  }
  return reinterpret_cast<ingot_kernel>(found);
}

void call_host_kernel(ingot_kernel function, const std::string& kernel, std::span<const ingot_tensor> inputs, std::span<const ingot_tensor> outputs,
                      std::span<const ingot_kernel_number> numbers, Workers& workers) {
  std::array<char, 512> message{};
  ingot_kernel_call call{};
  call.abi = INGOT_KERNEL_ABI;
  call.input_count = static_cast<int32_t>(inputs.size());
  call.output_count = static_cast<int32_t>(outputs.size());
  call.number_count = static_cast<int32_t>(numbers.size());
  call.inputs = inputs.data();
  call.outputs = outputs.data();
  call.numbers = numbers.data();
  call.threads = workers.count();
  call.parallel_for = [](const ingot_kernel_call* of, int64_t tasks, void (*task)(int64_t, int32_t, void*), void* user) {
    static_cast<Workers*>(of->runtime)->run(tasks, [&](int64_t k, int thread) { task(k, thread, user); });
  };
  call.message = message.data();
  call.message_bytes = message.size();
  call.runtime = &workers;
  const int status = function(&call);
  if (status == 0) return;
  message.back() = 0;
  std::string said(message.data());
  if (find_bad_utf8(said)) said.clear();
  fail(Code::invalid_input, "kernel {} failed with status {}{}{}", kernel, status, said.empty() ? "" : ": ", said);
}

std::vector<ingot_kernel_number> numbers_of(const ExternalArgs& a, std::span<const int64_t> sizes) {
  std::vector<ingot_kernel_number> out;
  for (const ExternalNumber& n : a.numbers) {
    const int64_t i = n.kind == ExternalNumber::Kind::size ? sizes[static_cast<size_t>(n.integer)] : n.integer;
    if (n.kind == ExternalNumber::Kind::real) {
      out.push_back({0, n.real});
    } else {
      out.push_back({i, static_cast<double>(i)});
    }
  }
  return out;
}

const RunKernel external_host_kernel{"external", load, resolve, run};

}  // namespace ingot::kernels
