#include "backend/cuda/compile/emulated_test.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include "backend/cpu/kernels/kernel_test.h"
#include "backend/cuda/compile/emulated_test.cuh.h"
#include "backend/cuda/compile/gelu_for_half.cuh.h"
#include "backend/cuda/compile/matrix_text.h"
#include "backend/cuda/compile/prelude.h"
#include "backend/cuda/kernels/concurrent/concurrent.h"
#include "backend/cuda/kernels/concurrent/run/concurrent_launches.h"
#include "backend/cuda/kernels/gpu_step_test.h"
#include "base/error.h"
#include "kernels/fourier/run/fourier_args.h"

namespace ingot::backend::cuda {

namespace {

constexpr std::string_view head = R"(
#include <ucontext.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>
#define __device__
#define __global__
#define __noinline__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(n)
#define __grid_constant__
#define __shared__ static
#define __align__(n)
#define INGOT_BLOCKS(n) n
)";

// Steps of the same form share their kernels.
const Emulated& emulated(const PrintedStep& p, bool groups) {
  static std::map<std::pair<std::string, bool>, std::unique_ptr<Emulated>> made;
  auto& e = made[{p.name, groups}];
  if (!e) e = std::make_unique<Emulated>(p.text, p.kernels, groups);
  return *e;
}

// A block's shared variables are global for all fibers; shared memory of the launch is defined outside.
std::string with_global_shared_memory(std::string text) {
  for (size_t at = 0; (at = text.find("extern __shared__ __align__(1024) uint4 tiles_of_block[];", at)) != std::string::npos;) text.erase(at, text.find(';', at) - at);
  for (size_t at = 0; (at = text.find("extern __shared__", at)) != std::string::npos;) text.replace(at, 17, "extern");
  return text;
}

// Unoptimized code would overflow the fibers' stacks.
void compile_for_host(const std::string& folder, std::string_view arguments) {
  const std::string command = fmt::format("c++ -std=c++20 -Og -fno-strict-aliasing -w -fPIC -Winvalid-pch {} 2>{}/log", arguments, folder);
  if (std::system(command.c_str()) == 0) return;
  std::ifstream log(folder + "/log");
  std::string why((std::istreambuf_iterator<char>(log)), {});
  fail(Code::internal, "the kernels do not compile for the host: {}", why.substr(0, 3000));
}

}  // namespace

void run_printed(const PrintedStep& p, const std::vector<HostTensor*>& tensors, std::span<const int64_t> sizes, Where where, size_t shift, int multiprocessors) {
  if (where == Where::gpu) return run_on_gpu(p.step, p.text, p.kernels, tensors, sizes, shift);
  std::vector<TensorRef> operands;
  for (HostTensor* t : tensors) {
    const size_t bytes = shift * ir::size_of(t->dtype);
    t->bytes.insert(t->bytes.begin(), bytes, std::byte{0});
    operands.push_back({t->bytes.data() + bytes, t->dtype, static_cast<int>(t->dims.size()), t->dims.data(), t->strides.data()});
  }
  std::shared_ptr<const void> constants = p.load(p.step.constants, operands.size(), sizes.size());
  Call call;
  call.operands = operands;
  call.sizes = sizes;
  call.constants = constants.get();
  const bool groups = where >= Where::early_groups;
  emulated(p, groups).run(p.launches(call, {multiprocessors, groups}), operands, where == Where::late || where == Where::late_groups);
  for (HostTensor* t : tensors) t->bytes.erase(t->bytes.begin(), t->bytes.begin() + static_cast<int64_t>(shift * ir::size_of(t->dtype)));
}

void run_joined(std::span<const PrintedPart> parts, Where where, size_t shift, int multiprocessors) {
  std::vector<Concurrent::Part> steps;
  for (const PrintedPart& p : parts) steps.push_back({&p.step, p.writes, std::vector<Operand>(p.tensors.size(), {Role::body, ir::DType::f32, {}})});
  EmittedStep joined = join_steps(steps);
  std::vector<HostTensor*> tensors;
  for (bool written : {false, true}) {
    for (const PrintedPart& p : parts) {
      const auto writes = p.tensors.end() - static_cast<int64_t>(p.writes);
      tensors.insert(tensors.end(), written ? writes : p.tensors.begin(), written ? p.tensors.end() : writes);
    }
  }
  std::vector<int64_t> sizes;
  for (const ir::Dim& d : joined.sizes) sizes.push_back(d.value());
  ASSERT_EQ(joined.code.size(), 1) << "the steps have different code";
  const CodeUnit& unit = joined.code[0];
  run_printed({joined, unit.name, text_with_libraries(unit), unit.kernels, kernels::load_concurrent_cuda, kernels::concurrent_cuda_launches}, tensors, sizes, where, shift,
              multiprocessors);
}

std::string emulation_missing() { return std::system("c++ --version >/dev/null 2>&1") == 0 ? "" : "there is no compiler c++"; }

Emulated::Folder::Folder() : path((std::filesystem::temp_directory_path() / "ingot_emulated_XXXXXX").string()) {
  if (mkdtemp(path.data()) == nullptr) fail(Code::internal, "no folder {}", path);
}

Emulated::Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

// The emulated machine, with either kind of matrix instructions: a header that the compiler reads once for all kernels.
const std::string& Emulated::machine(bool warpgroups) {
  struct Header {
    Folder folder;
    std::string path = folder.path + "/machine.h";
    explicit Header(bool warpgroups) {
      std::ofstream to(path);
      if (warpgroups) to << "#define INGOT_WARPGROUPS\n";
      // Uses the prelude's element types and reductions, without its other functions.
      to << head << prelude().substr(0, prelude().find("__device__")) << emulated_test_cuh << prelude().substr(prelude().find("template <class A, class T> struct Sum"))
         << gelu_for_half_cuh << with_global_shared_memory(std::string(matrix_text()));
      to.close();
      compile_for_host(folder.path, fmt::format("-x c++-header -o {0}.gch {0}", path));
    }
  };
  static const Header mma(false), groups(true);
  return (warpgroups ? groups : mma).path;
}

Emulated::Emulated(const std::string& text, std::span<const std::string> kernels, bool warpgroups) {
  std::ofstream source(folder_.path + "/kernels.cpp");
  source << "#include \"" << machine(warpgroups) << "\"\n"
         << with_global_shared_memory(text) << "template <class P> void start(void (*kernel)(P), const void* p) { kernel(*(const P*)p); }\n";
  for (const std::string& k : kernels) {
    // "__cluster_dims__(2) __launch_bounds__(..) kernel("
    const size_t at = text.find(" " + k + "("), line = text.rfind('\n', at), cluster = text.find("__cluster_dims__(", line == std::string::npos ? 0 : line);
    clusters_[k] = cluster < at ? static_cast<uint32_t>(std::stoi(text.substr(text.find('(', cluster) + 1))) : 1;
    source << fmt::format("extern \"C\" void start_{}(const void* p) {{ start({}, p); }}\n", k, k);
  }
  source.close();
  compile_for_host(folder_.path, fmt::format("-shared -o {0}/kernels.so {0}/kernels.cpp", folder_.path));
  library_ = dlopen((folder_.path + "/kernels.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) fail(Code::internal, "{}", dlerror());
}

Emulated::~Emulated() {
  if (library_ != nullptr) dlclose(library_);
}

void transform_by_cpu(const kernels::FourierArgs& args, const std::vector<TensorRef>& operands) {
  using Kind = ir::FourierKind;
  auto along = [](Kind kind, std::vector<TensorRef> list, int axis) {
    std::vector<std::vector<int64_t>> memory;
    for (TensorRef& t : list) {
      for (const int64_t** of : {&t.dims, &t.strides}) {
        auto& transposed = memory.emplace_back(*of, *of + t.rank);
        std::swap(transposed[static_cast<size_t>(axis)], transposed.back());
        *of = transposed.data();
      }
    }
    kernels::run_kernel("fourier", kernels::serialise(kernels::FourierArgs{kind}), list);
  };
  const int last = operands[0].rank - 1;
  auto along_others = [&](const TensorRef& re, const TensorRef& im) {
    for (int axis = last + 1 - static_cast<int>(args.axes); axis < last; ++axis) along(Kind::pair, {re, im, re, im}, axis);
  };
  if (args.kind == Kind::to_real) along_others(operands[1], operands[0]);
  along(args.kind, operands, last);
  if (args.kind != Kind::to_real) along_others(operands[args.inputs()], operands[args.inputs() + 1]);
}

// What cuFFT does. It writes over what real numbers are made of, as cuFFT may.
static void transform_on_host(const kernels::CudaTransform& t, std::byte* from, std::byte* to) {
  using Kind = ir::FourierKind;
  const ir::DType type = t.wide ? ir::DType::f64 : ir::DType::f32;
  std::vector<int64_t> dims[2], strides[2];
  std::vector<TensorRef> refs;
  for (bool writes : {false, true}) {
    const kernels::CudaTransform::Side& side = writes ? t.to : t.from;
    const bool real = writes ? t.to_real : t.of_real, half = writes ? t.of_real : t.to_real;
    const int64_t parts = real ? 1 : 2;
    dims[writes] = {t.count};
    dims[writes].insert(dims[writes].end(), t.lengths.begin(), t.lengths.end());
    if (half) dims[writes].back() = t.lengths.back() / 2 + 1;
    strides[writes].assign(dims[writes].size(), side.step * parts);
    for (size_t d = dims[writes].size() - 1; d-- > 1;) strides[writes][d] = strides[writes][d + 1] * side.embedding[d];
    strides[writes][0] = side.distance * parts;
    for (int64_t k = 0; k < parts; ++k) {
      refs.push_back({(writes ? to : from) + static_cast<size_t>(k ^ int64_t{t.inverse}) * ir::size_of(type), type, static_cast<int>(dims[writes].size()), dims[writes].data(),
                      strides[writes].data()});
    }
  }
  transform_by_cpu({t.of_real ? Kind::of_real : t.to_real ? Kind::to_real : Kind::pair, static_cast<int64_t>(t.lengths.size())}, refs);
  if (t.to_real) std::memset(from, 0xff, static_cast<size_t>(numel(refs[0])) * 2 * ir::size_of(type));
}

void Emulated::run(const kernels::CudaLaunches& launches, std::span<const TensorRef> operands, bool late) const {
  using Pointer = kernels::CudaLaunch::Pointer;
  auto emulate = reinterpret_cast<void (*)(void (*)(const void*), const void*, uint32_t, uint32_t, uint32_t, uint32_t, int)>(dlsym(library_, "emulate"));
  std::vector<std::byte> room(launches.scratch + 256);
  std::byte* scratch = room.data() + (256 - reinterpret_cast<uintptr_t>(room.data()) % 256) % 256;
  for (const kernels::CudaLaunch& l : launches.fit(operands) ? launches.list : launches.any) {
    constexpr size_t alignment = 64;
    std::vector<std::byte> memory(l.parameters.size() + alignment);
    const std::span<std::byte> parameters(memory.data() + (alignment - reinterpret_cast<uintptr_t>(memory.data()) % alignment), l.parameters.size());
    std::copy(l.parameters.begin(), l.parameters.end(), parameters.begin());
    uint64_t status = 0;
    for (const Pointer& p : l.pointers) {
      const void* address = p.what == Pointer::status ? static_cast<const void*>(&status) : p.what == Pointer::operand ? operands[p.index].data : scratch + p.offset;
      std::memcpy(parameters.data() + p.at, &address, sizeof address);
    }
    // In the layout of the emulation's TileMap.
    std::vector<std::array<int64_t, 28>> maps;
    maps.reserve(l.tiles.size());
    for (const kernels::CudaTiles& t : l.tiles) {
      auto& m = maps.emplace_back();
      int64_t* to = m.data();
      auto add = [&](const auto& values) { to = std::copy(values.begin(), values.end(), to); };
      *to++ = static_cast<int64_t>(reinterpret_cast<intptr_t>(t.in_scratch ? scratch : operands[t.index].data)) + t.offset;
      *to++ = t.rank;
      add(t.dims), add(t.strides), add(t.box), add(t.steps), add(t.lower), add(t.upper);
      *to++ = static_cast<int64_t>(ir::size_of(t.dtype));
      *to = t.rounded ? 1 : 0;
      const int64_t* at = m.data();
      std::memcpy(parameters.data() + t.at, &at, sizeof at);
    }
    if (l.kernel.empty()) {
      std::byte* ends[2];
      std::memcpy(ends, parameters.data(), sizeof ends);
      transform_on_host(launches.transform, ends[0], ends[1]);
      continue;
    }
    std::string name = "start_" + l.kernel;
    auto kernel = reinterpret_cast<void (*)(const void*)>(dlsym(library_, name.c_str()));
    if (kernel == nullptr) fail(Code::internal, "there is no kernel {}", name);
    emulate(kernel, parameters.data(), l.blocks, l.blocks_y, l.threads, clusters_.at(l.kernel), late);
  }
}

namespace {

std::vector<CodeUnit::Library> all_matrix_libraries() {
  std::vector<CodeUnit::Library> out;
  for (ir::DType type : {ir::DType::f16, ir::DType::bf16, ir::DType::f32}) {
    for (CodeUnit::Library library : matrix_libraries(type, {true, false})) {
      if (std::find(out.begin(), out.end(), library) == out.end()) out.push_back(library);
    }
  }
  return out;
}

}  // namespace

std::string matrix_texts() {
  std::string out;
  for (CodeUnit::Library library : all_matrix_libraries()) out += library();
  return out;
}

std::string text_with_libraries(const CodeUnit& unit) {
  const std::vector<CodeUnit::Library> of_matrices = all_matrix_libraries();
  std::string out;
  for (CodeUnit::Library library : unit.libraries) {
    if (std::find(of_matrices.begin(), of_matrices.end(), library) == of_matrices.end()) out += library();
  }
  return out + unit.shared + unit.text;
}

}  // namespace ingot::backend::cuda
