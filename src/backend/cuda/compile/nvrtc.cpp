#include "backend/cuda/compile/nvrtc.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "backend/cuda/compile/code_cache.h"
#include "backend/cuda/compile/tuning.h"
#include "backend/cuda/run/libraries.h"
#include "base/error.h"
#include "base/parallel.h"

namespace ingot::backend::cuda {

namespace {

using Program = struct _nvrtcProgram*;

struct Nvrtc {
  std::string headers;  // folder of CUDA's headers, for users' texts; may be empty
  const char* (*error_text)(int error);
#define X(name, symbol, arguments) int(*name) arguments;
#include "backend/cuda/compile/nvrtc.def"
};

// Next to NVRTC, as in pip packages, or in CUDA's toolkit.
std::string find_headers(const std::string& library) {
  std::vector<std::filesystem::path> folders{std::filesystem::path(library).parent_path().parent_path() / "include"};
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* home = std::getenv(name); home != nullptr && *home != 0) folders.push_back(std::filesystem::path(home) / "include");
  }
  folders.emplace_back("/usr/local/cuda/include");
  std::error_code ignored;
  for (const std::filesystem::path& f : folders) {
    if (std::filesystem::exists(f / "cuda_fp16.h", ignored)) return f.string();
  }
  return {};
}

Nvrtc load() {
  SharedLibrary library(nvrtc_library);
  Nvrtc n{};
  n.headers = find_headers(library.path());
  library.find(n.error_text, "nvrtcGetErrorString");
#define X(name, symbol, arguments) library.find(n.name, #symbol);
#include "backend/cuda/compile/nvrtc.def"
  NvrtcVersion v;
  if (n.version(&v.major, &v.minor) == 0) library.load_neighbour(fmt::format("libnvrtc-builtins.so.{}.{}", v.major, v.minor));
  return n;
}

const Nvrtc& nvrtc() {
  static const Nvrtc n = load();
  return n;
}

void check(int error, const char* what) {
  if (error != 0) fail(Code::internal, "NVRTC's {} failed: {}", what, nvrtc().error_text(error));
}

// The line of the first error, which is easy to miss in a log of thousands of lines.
std::string excerpt(std::string_view text, std::string_view log) {
  if (const size_t error = log.find("): error"); error != std::string_view::npos) log.remove_prefix(log.rfind('\n', error) + 1);
  size_t at = log.find('('), line = 0;
  if (at != std::string_view::npos) line = static_cast<size_t>(std::atoi(std::string(log.substr(at + 1, 9)).c_str()));
  std::string out(log.substr(0, compile_tuning::log_excerpt));
  size_t number = 1;
  for (size_t start = 0; start < text.size() && line > 0; ++number) {
    size_t end = std::min(text.find('\n', start), text.size());
    if (number == line) out += fmt::format("\nline {}: {}", line, text.substr(start, end - start));
    start = end + 1;
  }
  return out;
}

// True for machine code that uses instructions of one architecture only.
bool is_special(const CompileJob& job) { return job.special && job.sm == 90 && job.form == CompileJob::Form::cubin; }

std::vector<std::string> options_of(const CompileJob& job) {
  const char* kind = job.form == CompileJob::Form::cubin ? "sm" : "compute";
  std::vector<std::string> out{fmt::format("--gpu-architecture={}_{}{}", kind, job.sm, is_special(job) ? "a" : ""), "--std=c++17", "--device-as-default-execution-space"};
  if (job.of.empty() && nvrtc_version().major >= 13) out.emplace_back("--minimal");  // without textures and the runtime's types, which ingot's texts do not use
  if (!job.of.empty() && !nvrtc().headers.empty()) out.push_back("--include-path=" + nvrtc().headers);
  return out;
}

// Compiles one text for one architecture in all requested forms: PTX is a by-product of machine code.
std::vector<std::vector<std::byte>> compile_once(std::span<const CompileJob> jobs, const std::vector<size_t>& wanted) {
  const Nvrtc& n = nvrtc();
  auto is_cubin = [&](size_t k) { return jobs[k].form == CompileJob::Form::cubin; };
  const CompileJob& job = jobs[*std::max_element(wanted.begin(), wanted.end(), [&](size_t x, size_t y) { return is_cubin(x) < is_cubin(y); })];
  struct Owner {
    Program program = nullptr;
    ~Owner() {
      if (program != nullptr) nvrtc().destroy(&program);
    }
  } owner;
  check(n.create(&owner.program, job.text.c_str(), "ingot.cu", 0, nullptr, nullptr), "nvrtcCreateProgram");
  std::vector<std::string> options = options_of(job);
  std::vector<const char*> pointers;
  for (const std::string& o : options) pointers.push_back(o.c_str());
  if (int error = n.compile(owner.program, static_cast<int>(pointers.size()), pointers.data()); error != 0) {
    size_t size = 0;
    check(n.log_size(owner.program, &size), "nvrtcGetProgramLogSize");
    std::string log(size, '\0');
    check(n.log(owner.program, log.data()), "nvrtcGetProgramLog");
    if (!job.of.empty()) {
      throw Error(Code::invalid_input, fmt::format("the CUDA source of kernel {} does not compile for sm_{}: {}", job.of, job.sm, excerpt(job.text, log)))
          .fix("mend it and register the kernel again; CUDA's headers are looked for next to NVRTC (`pip install nvidia-cuda-runtime`) and in CUDA_HOME/include");
    }
    fail(Code::internal, "code for sm_{} does not compile: {}: {}", job.sm, n.error_text(error), excerpt(job.text, log));
  }
  std::vector<std::vector<std::byte>> out;
  for (size_t k : wanted) {
    size_t size = 0;
    check((is_cubin(k) ? n.cubin_size : n.ptx_size)(owner.program, &size), "size of the code");
    out.emplace_back(size);
    check((is_cubin(k) ? n.cubin : n.ptx)(owner.program, reinterpret_cast<char*>(out.back().data())), "code");
  }
  return out;
}

std::vector<std::byte> key_of(const CompileJob& job, NvrtcVersion version) {
  std::string key = fmt::format("nvrtc {}.{}\n", version.major, version.minor);
  for (const std::string& o : options_of(job)) key += o + "\n";
  key += job.text;
  std::vector<std::byte> bytes(key.size());
  std::memcpy(bytes.data(), key.data(), key.size());
  return bytes;
}

}  // namespace

NvrtcVersion nvrtc_version() {
  NvrtcVersion v;
  check(nvrtc().version(&v.major, &v.minor), "nvrtcVersion");
  return v;
}

std::vector<int> nvrtc_architectures() {
  int count = 0;
  check(nvrtc().architecture_count(&count), "nvrtcGetNumSupportedArchs");
  std::vector<int> list(static_cast<size_t>(count));
  check(nvrtc().architectures(list.data()), "nvrtcGetSupportedArchs");
  return list;
}

Compiled compile(std::span<const CompileJob> jobs, const CompileOptions& options) {
  NvrtcVersion version = nvrtc_version();
  std::vector<int> known = nvrtc_architectures();
  for (const CompileJob& job : jobs) {
    if (std::find(known.begin(), known.end(), job.sm) == known.end()) {
      throw Error(Code::unsupported,
                  fmt::format("NVRTC {}.{} does not compile for sm_{}: it knows sm_{} to sm_{}", version.major, version.minor, job.sm, known.front(), known.back()))
          .fix(job.sm < known.front()
                   ? fmt::format("take a target from cuda:sm_{} on; on an older GPU run the model on the CPU", known.front())
                   : "take the architecture of the GPU it is for (torch.cuda.get_device_capability()); a newer one wants a newer NVRTC (`pip install -U nvidia-cuda-nvrtc`)");
    }
  }
  CodeCache cache(options.cache_folder);
  Compiled out;
  out.cache_problem = cache.problem();
  out.code.resize(jobs.size());
  std::mutex mutex;
  std::exception_ptr failure;
  std::map<std::tuple<std::string_view, int, bool>, std::vector<size_t>> of_one_text;
  for (size_t k = 0; k < jobs.size(); ++k) of_one_text[{jobs[k].text, jobs[k].sm, is_special(jobs[k])}].push_back(k);
  std::vector<std::vector<size_t>> texts;
  for (auto& [key, list] : of_one_text) texts.push_back(std::move(list));
  // NVRTC reads one text at a time; what follows runs side by side, and takes longest for the longest texts, those with matrix instructions.
  std::stable_sort(texts.begin(), texts.end(), [&](const auto& x, const auto& y) { return jobs[x[0]].text.size() > jobs[y[0]].text.size(); });
  std::atomic<size_t> next = 0;
  // Problems with the cache must not lose the compiled code.
  auto in_cache = [&](auto&& use) {
    try {
      use();
    } catch (const Error& e) {
      std::lock_guard lock(mutex);
      out.cache_problem = e.message;
    }
  };
  auto take = [&](const std::vector<size_t>& list) {
    std::vector<size_t> missing;
    for (size_t k : list) {
      std::optional<std::vector<std::byte>> found;
      in_cache([&] { found = cache.find(key_of(jobs[k], version)); });
      if (!found) {
        missing.push_back(k);
        continue;
      }
      out.code[k] = std::move(*found);
      std::lock_guard lock(mutex);
      ++out.from_cache;
    }
    if (missing.empty()) return;
    std::vector<std::vector<std::byte>> made = compile_once(jobs, missing);
    for (size_t m = 0; m < missing.size(); ++m) {
      out.code[missing[m]] = std::move(made[m]);
      in_cache([&] { cache.put(key_of(jobs[missing[m]], version), out.code[missing[m]]); });
    }
  };
  auto work = [&] {
    for (size_t t; (t = next++) < texts.size();) {
      try {
        take(texts[t]);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = texts.size();
      }
    }
  };
  auto threads = static_cast<size_t>(options.threads > 0 ? options.threads : usable_threads());
  threads = std::min(threads, texts.size());
  std::vector<std::thread> others;
  for (size_t k = 1; k < threads; ++k) others.emplace_back(work);
  work();
  for (std::thread& t : others) t.join();
  if (failure) std::rethrow_exception(failure);
  return out;
}

}  // namespace ingot::backend::cuda
