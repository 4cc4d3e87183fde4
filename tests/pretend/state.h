// What the pretend driver keeps: settings and counts by name, and all that was made and not given back.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/run/driver.h"

namespace pretended {

using namespace ingot::backend::cuda;

enum Result : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  deinitialized = 4,
  no_device = 100,
  invalid_device = 101,
  invalid_image = 200,
  invalid_context = 201,
  no_binary_for_gpu = 209,
  unsupported_ptx = 222,
  invalid_handle = 400,
  not_found = 500,
  launch_failed = 719,
};

struct Named {
  int error;
  const char *name, *text;
};
inline constexpr Named errors[] = {
    {success, "CUDA_SUCCESS", "no error"},
    {invalid_value, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {deinitialized, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {no_device, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {invalid_device, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {invalid_image, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {invalid_context, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {no_binary_for_gpu, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {unsupported_ptx, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
    {invalid_handle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {not_found, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {launch_failed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
};

constexpr int most_gpus = 8;

class Pretend {
 public:
  std::mutex mutex;
  std::map<std::string, long long, std::less<>> values = {
      {"gpus", 1},    {"sm", 90},         {"driver", 13000},     {"memory", 8LL << 30}, {"fail_allocation", 0},    {"fail_call", 0},     {"allocations", 0},
      {"frees", 0},   {"live_bytes", 0},  {"live", 0},           {"calls", 0},          {"launches", 0},           {"replays", 0},       {"mistakes", 0},
      {"refused", 0}, {"host_memory", 0}, {"algorithms", 1},     {"fastest", 0},        {"refused_algorithm", -1}, {"cublaslt", 130000}, {"clock", 0},
      {"waits", 0},   {"shut_down", 0},   {"launch_time", 1000}, {"fast_tile", -1},     {"peak_bytes", 0},         {"pinned_copies", 0}, {"blocks", 0}};
  std::string events, shown;
  struct Memory {
    size_t bytes;
    int device;  // -1: of the host
    int context;
    long long number;  // of the allocation
  };
  // Copies from page-locked memory in recorded streams, in recordings, and in what is made of them: the memory's address and the number of its allocation.
  std::map<void*, std::vector<std::pair<Address, long long>>> copied;
  std::map<Address, Memory> memory;
  // Copies from page-locked memory that may be under way: per piece of work (a number), what it reads. A stream, and an event, come after pieces of work.
  std::map<long long, std::vector<std::pair<Address, long long>>> under_way;
  std::map<void*, std::set<long long>> comes_after;
  std::set<void*> streams, events_made, contexts;
  std::map<void*, void*> recording;  // streams, and the one whose recording they are in: itself, or that of an event which they wait for
  struct Reached {
    long long given = 0, joined = 0;  // pieces of work in a recorded stream, and how many of them the recording's own stream comes after
  };
  std::map<void*, Reached> reached;  // of streams that are recorded
  struct Mark {
    void* stream;
    long long given;
  };
  std::set<void*> joined;  // streams that have waited for an event since their last kernel
  std::map<void*, Mark> marks;  // of events that were recorded in recorded streams
  std::set<void*> graphs, execs;
  std::map<void*, GraphHandle> graph_of;  // of streams that are recorded, once someone asked
  struct UserObject {
    void* what;
    void (*destroy)(void*);
    long long references;
  };
  std::map<void*, UserObject> user_objects;
  std::map<void*, std::vector<void*>> held;  // user objects of graphs and of what is made of them
  std::map<void*, std::set<void*>> loaded;   // modules whose kernels are in recorded streams, in recordings, and in what is made of them
  std::map<void*, long long> work;   // nanoseconds, of streams that are recorded, of graphs and of what is made of them
  std::map<void*, long long> times;  // of events
  struct Module {
    std::vector<std::string> kernels;
  };
  std::map<void*, Module> modules;
  struct Function {
    std::string name;
    void* module;
  };
  std::map<void*, Function> functions;
  char context_of[most_gpus] = {};         // their addresses are the contexts
  int retained[most_gpus] = {};

  Pretend() {
    const char* given = std::getenv("INGOT_PRETEND");
    for (std::string_view rest = given != nullptr ? given : ""; !rest.empty();) {
      std::string_view one = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), one.size() + 1));
      size_t equal = one.find('=');
      if (equal == std::string_view::npos || !values.contains(one.substr(0, equal))) {
        std::fprintf(stderr, "INGOT_PRETEND: there is no setting \"%.*s\"\n", static_cast<int>(one.size()), one.data());
        std::abort();
      }
      values[std::string(one.substr(0, equal))] = std::atoll(std::string(one.substr(equal + 1)).c_str());
    }
  }

  void note(const std::string& line) {
    events += line + "\n";
    if (const char* path = std::getenv("INGOT_PRETEND_EVENTS")) {
      if (std::FILE* file = std::fopen(path, "ab")) {
        std::fprintf(file, "%s\n", line.c_str());
        std::fclose(file);
      }
    }
  }
  int mistake(int error, const std::string& what) {
    ++values["mistakes"];
    note("mistake: " + what);
    return error;
  }
  // Whether the call that is counted here is the one to fail.
  bool fails(const char* setting) {
    long long& left = values[setting];
    return left > 0 && --left == 0;
  }
  bool call_fails() {
    ++values["calls"];
    if (!fails("fail_call")) return false;
    under_way.clear();  // a driver that fails does no more work
    return true;
  }
  // `destroy` must not call the driver: the mutex is held.
  void release(void* object, long long references) {
    UserObject& one = user_objects.at(object);
    if ((one.references -= references) > 0) return;
    one.destroy(one.what);
    user_objects.erase(object);
    --values["live"];
  }
  void release_held(void* of) {
    for (void* object : held[of]) release(object, 1);
    held.erase(of);
    loaded.erase(of);
  }
  // A handle that is no other one, now or later.
  template <class T>
  T fresh() {
    return reinterpret_cast<T>(next_ += 16);
  }
  // The allocation that holds the address; null when none does.
  const std::pair<const Address, Memory>* holding(Address a) const {
    auto after = memory.upper_bound(a);
    if (after == memory.begin()) return nullptr;
    const auto& found = *std::prev(after);
    return a < found.first + found.second.bytes ? &found : nullptr;
  }
  void give_work(void* stream, std::vector<std::pair<Address, long long>> reads) {
    if (reads.empty()) return;
    under_way[++pieces_] = std::move(reads);
    comes_after[stream].insert(pieces_);
  }
  // All that a stream or an event comes after is done.
  void waited_for(void* what) {
    for (long long piece : std::set<long long>(comes_after[what])) {
      under_way.erase(piece);
      for (auto& [other, pieces] : comes_after) pieces.erase(piece);
    }
  }
  bool is_read(Address address) const {
    return std::any_of(under_way.begin(), under_way.end(),
                       [&](const auto& one) { return std::any_of(one.second.begin(), one.second.end(), [&](const auto& read) { return read.first == address; }); });
  }
  // Memory of the host that nobody took here may be anything.
  bool inside(Address a, size_t bytes) const {
    const auto* found = holding(a);
    return found == nullptr || bytes <= found->first + found->second.bytes - a;
  }
  long long used(int device) const {
    long long sum = 0;
    for (const auto& [address, m] : memory) sum += m.device == device ? static_cast<long long>(m.bytes) : 0;
    return sum;
  }

 private:
  uintptr_t next_ = 0x10000;
  long long pieces_ = 0;
};

inline Pretend& pretend() {
  static auto* p = new Pretend;  // never destroyed: what ends late still calls
  return *p;
}

inline thread_local std::vector<Context> current;

inline int current_device() {
  if (current.empty() || current.back() == nullptr) return -1;
  return static_cast<int>(reinterpret_cast<char*>(current.back()) - pretend().context_of);
}

template <class Handle>
int make(Handle* out, std::set<void*>& into) {
  Pretend& p = pretend();
  if (p.call_fails()) return launch_failed;
  if (current_device() < 0) return p.mistake(invalid_context, "something is made without a context");
  *out = p.fresh<Handle>();
  into.insert(*out);
  ++p.values["live"];
  return success;
}

inline int drop(void* handle, std::set<void*>& from, const char* what) {
  Pretend& p = pretend();
  if (from.erase(handle) == 0) return p.mistake(invalid_handle, std::string(what) + " that is not there is given back");
  --p.values["live"];
  return success;
}

inline int take_memory(Address* out, size_t bytes, int device) {
  Pretend& p = pretend();
  p.values["refused"] = static_cast<long long>(bytes);
  if (p.fails("fail_allocation")) return out_of_memory;
  if (p.call_fails()) return launch_failed;
  if (bytes == 0) return p.mistake(invalid_value, "no bytes of memory are asked for");
  if (device >= 0 && p.used(device) + static_cast<long long>(bytes) > p.values["memory"]) return out_of_memory;
  void* memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (memory != nullptr) std::memset(memory, 0, bytes);  // kernels write nothing: what is read of them is 0
  if (memory == nullptr) return out_of_memory;
  *out = reinterpret_cast<Address>(memory);
  p.memory[*out] = {bytes, device, current_device(), ++p.values["blocks"]};
  ++p.values["live"];
  if (device >= 0) {
    ++p.values["allocations"];
    p.values["live_bytes"] += static_cast<long long>(bytes);
    p.values["peak_bytes"] = std::max(p.values["peak_bytes"], p.values["live_bytes"]);
  } else {
    ++p.values["host_memory"];
  }
  return success;
}

inline int give_memory(Address address, bool of_device) {
  Pretend& p = pretend();
  auto found = p.memory.find(address);
  if (found == p.memory.end() || (found->second.device >= 0) != of_device) return p.mistake(invalid_value, "memory that is not there is given back");
  if (of_device) {
    ++p.values["frees"];
    p.values["live_bytes"] -= static_cast<long long>(found->second.bytes);
  } else {
    --p.values["host_memory"];
  }
  --p.values["live"];
  if (p.is_read(address)) return p.mistake(invalid_value, "page-locked memory is freed while it may be copied from");
  p.memory.erase(found);
  std::free(reinterpret_cast<void*>(address));
  return success;
}

inline int copy_bytes(Address to, Address from, size_t bytes, StreamHandle stream) {
  Pretend& p = pretend();
  if (p.call_fails()) return launch_failed;
  if (!p.inside(to, bytes) || !p.inside(from, bytes)) return p.mistake(invalid_value, "a copy leaves its memory");
  if (stream != nullptr && !p.streams.contains(stream)) return p.mistake(invalid_handle, "a copy in a stream that is gone");
  const auto* source = p.holding(from);
  if (source != nullptr && source->second.device < 0) ++p.values["pinned_copies"];
  if (p.recording.contains(stream)) {
    ++p.reached[stream].given;
    if (source != nullptr && source->second.device < 0) p.copied[p.recording[stream]].push_back({source->first, source->second.number});
  }
  if (p.recording.contains(stream)) return success;
  if (source != nullptr && source->second.device < 0) p.give_work(stream, {{source->first, source->second.number}});
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return success;
}

}  // namespace pretended
