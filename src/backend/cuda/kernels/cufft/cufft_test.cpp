// Transforms by cuFFT: what they read and write, on the host with the CPU's kernel in cuFFT's place; with a GPU, their results and (INGOT_MEASURE=1) their times compared with those of ingot's own kernels.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <random>
#include <utility>

#include "backend/compiler.h"
#include "backend/cpu/kernels/kernel_test.h"
#include "backend/cuda/available_test.h"
#include "backend/cuda/compile/emulated_test.h"
#include "backend/cuda/kernels/cufft/cufft.h"
#include "backend/cuda/kernels/cufft/run/cufft_launches.h"
#include "backend/cuda/kernels/fourier/run/fourier_launches.h"
#include "backend/cuda/run/cufft.h"
#include "backend/cuda/run/gpu.h"
#include "kernels/fourier/run/fourier_checks.h"

namespace ingot::backend::cuda {
namespace {

using ir::DType;
using kernels::FourierArgs;
using Kind = ir::FourierKind;

// How complex numbers are stored: real and imaginary parts separate; interleaved; interleaved, the imaginary part first; interleaved, with the transform along the outer axis; the same
// with two batch axes that are not one.
enum class Storage : uint8_t { planar, interleaved, swapped, columns, blocks };
constexpr std::string_view storage_names[] = {"planar", "interleaved", "swapped", "columns", "blocks"};
constexpr std::string_view names_of_kinds[] = {"pair", "of_real", "to_real"};

// The memory of a transform's operands or results.
struct End {
  DType type;
  Storage storage;
  size_t parts;
  std::vector<int64_t> dims, strides;
  size_t second = 0, bytes = 0;  // where the imaginary part begins, and all of it

  End(DType t, Storage how, bool real, int64_t count, std::vector<int64_t> others, int64_t numbers) : type(t), storage(how), parts(real ? 1 : 2) {
    const int64_t p = storage == Storage::planar ? 1 : static_cast<int64_t>(parts);
    int64_t all = count * numbers;
    if (storage == Storage::blocks) {
      dims = {2, count / 2, numbers};
      strides = {numbers * (count / 2) * p, p, (count / 2) * p};
    } else {
      dims = std::move(others);
      dims.insert(dims.begin(), count);
      dims.push_back(numbers);
      strides.resize(dims.size());
      int64_t step = storage == Storage::columns ? count * p : p;
      for (size_t d = dims.size() - 1; d > 0; --d) strides[d] = std::exchange(step, step * dims[d]);
      strides[0] = storage == Storage::columns ? p : step;
      all = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
    }
    bytes = static_cast<size_t>(all) * parts * ir::size_of(t);
    second = storage == Storage::planar ? bytes / 2 : ir::size_of(t);
  }
  size_t place(size_t part) const { return storage == Storage::swapped ? parts - 1 - part : part; }
  void add(std::vector<TensorRef>& to, std::byte* base) const {
    for (size_t k = 0; k < parts; ++k) to.push_back({base + place(k) * second, type, static_cast<int>(dims.size()), dims.data(), strides.data()});
  }
};

struct Rows {
  Kind kind;
  DType type;
  int64_t count, length;
  Storage from_storage, to_storage;
  std::vector<int64_t> others;  // lengths along the other axes
  End from, to;

  Rows(Kind k, DType t, int64_t rows, int64_t n, Storage read, Storage written, std::vector<int64_t> outer = {})
      : kind(k),
        type(t),
        count(rows),
        length(n),
        from_storage(read),
        to_storage(written),
        others(std::move(outer)),
        from(t, read, k == Kind::of_real, rows, others, k == Kind::to_real ? n / 2 + 1 : n),
        to(t, written, k == Kind::to_real, rows, others, k == Kind::of_real ? n / 2 + 1 : n) {}
  std::string name() const {
    return fmt::format("{} {} {} x [{}] x {} from {} to {}", names_of_kinds[static_cast<size_t>(kind)], ir::name_of(type), count, fmt::join(others, ", "), length,
                       storage_names[static_cast<size_t>(from_storage)], storage_names[static_cast<size_t>(to_storage)]);
  }
  FourierArgs args() const { return {kind, 1 + std::ssize(others)}; }
  std::vector<std::byte> constants() const { return serialise(args()); }
  std::vector<TensorRef> refs(std::byte* read, std::byte* written) const {
    std::vector<TensorRef> out;
    from.add(out, read);
    to.add(out, written);
    return out;
  }
  std::vector<std::byte> numbers() const {
    std::vector<std::byte> out(from.bytes);
    std::mt19937 random(static_cast<uint32_t>(length));
    std::normal_distribution<double> normal;
    for (size_t at = 0; at < out.size(); at += ir::size_of(type)) {
      const double d = normal(random);
      const auto f = static_cast<float>(d);
      std::memcpy(&out[at], type == DType::f64 ? static_cast<const void*>(&d) : &f, ir::size_of(type));
    }
    return out;
  }
  std::vector<std::byte> by_cpu(std::vector<std::byte> read) const {
    std::vector<std::byte> out(to.bytes);
    transform_by_cpu(args(), refs(read.data(), out.data()));
    return out;
  }
  // The root mean square of the difference, relative to that of the numbers.
  double difference(const std::vector<std::byte>& a, const std::vector<std::byte>& b) const {
    double errors = 0, all = 0;
    for (size_t at = 0; at < a.size(); at += ir::size_of(type)) {
      auto get = [&](const std::vector<std::byte>& from_bytes) {
        double d = 0;
        float f = 0;
        std::memcpy(type == DType::f64 ? static_cast<void*>(&d) : &f, &from_bytes[at], ir::size_of(type));
        return type == DType::f64 ? d : static_cast<double>(f);
      };
      errors += (get(a) - get(b)) * (get(a) - get(b));
      all += get(b) * get(b);
    }
    return std::sqrt(errors / std::max(all, 1e-300));
  }
};

// Each of both, of which the roots of unity are rounded; a part of it for each stage.
double error_of(DType t) { return 8 * (t == DType::f64 ? 1.2e-16 : 6e-8); }

std::vector<Rows> cases() {
  std::vector<Rows> out;
  for (Kind kind : {Kind::pair, Kind::of_real, Kind::to_real}) {
    for (DType t : {DType::f32, DType::f64}) {
      for (int64_t n : {1, 2, 7, 12, 97, 360, 1024}) {
        for (Storage read : {Storage::planar, Storage::interleaved, Storage::swapped}) {
          for (Storage written : {Storage::planar, Storage::interleaved, Storage::swapped}) out.emplace_back(kind, t, 6, n, read, written);
        }
      }
      for (const std::vector<int64_t>& others : {std::vector<int64_t>{5}, {8}, {1}, {4, 3}, {1, 6}}) {
        for (int64_t n : {1, 6, 7}) {
          for (Storage read : {Storage::planar, Storage::interleaved, Storage::swapped, Storage::columns}) {
            for (Storage written : {Storage::planar, Storage::interleaved, Storage::swapped, Storage::columns}) out.emplace_back(kind, t, 3, n, read, written, others);
          }
        }
      }
      for (Storage storage : {Storage::columns, Storage::blocks}) out.emplace_back(kind, t, 6, 60, storage, storage);
      out.emplace_back(kind, t, 1, 2048, Storage::interleaved, Storage::interleaved);
    }
  }
  return out;
}

// The step by cuFFT, whatever it costs; its code has ingot's own kernels too.
EmittedStep step_of(const Rows& r) {
  const std::vector<std::byte> constants = r.constants();
  const Plain plain{"fourier", constants};
  Site site{plain};
  for (const End* end : {&r.from, &r.to}) {
    for (size_t part = 0; part < end->parts; ++part) {
      StridedLayout& w = site.operands.emplace_back(Operand{Role::input, r.type, {}}).layout;
      for (int64_t d : end->dims) w.dims.emplace_back(d);
      for (int64_t d : end->strides) w.strides.emplace_back(d);
      if (end->storage != Storage::planar) w.offset = ir::Dim(static_cast<int64_t>(end->place(part)));
    }
  }
  return cufft_step(site, plain);
}

// On the host. Each kind and type is one library.
TEST(cufft_emulated, reads_and_writes_like_the_cpu) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  std::map<std::string, std::unique_ptr<Emulated>> libraries;
  size_t direct = 0, inverses = 0;
  for (const Rows& r : cases()) {
    SCOPED_TRACE(r.name());
    const EmittedStep step = step_of(r);
    std::unique_ptr<Emulated>& library = libraries[step.code.back().name + (r.others.empty() ? "" : " along several axes")];
    if (!library) {
      std::string text;
      std::vector<std::string> names;
      for (const auto& l : step.code.back().libraries) text += l();
      for (const CodeUnit& u : step.code) text += u.text, names.insert(names.end(), u.kernels.begin(), u.kernels.end());
      library = std::make_unique<Emulated>(text, names, false);
    }
    const std::vector<std::byte> given = r.numbers(), want = r.by_cpu(given);
    auto loaded = kernels::load_cufft(step.constants, r.refs(nullptr, nullptr).size(), 0);
    for (size_t shift : {size_t{0}, ir::size_of(r.type)}) {  // at an address where ingot's own kernels do it
      std::vector<std::byte> read(given.size() + 64), written(want.size() + 64);
      auto aligned = [&](std::vector<std::byte>& v) { return v.data() + (16 - reinterpret_cast<uintptr_t>(v.data()) % 16) % 16 + shift; };
      std::copy(given.begin(), given.end(), aligned(read));
      const std::vector<TensorRef> refs = r.refs(aligned(read), aligned(written));
      Call call;
      call.operands = refs;
      call.constants = loaded.get();
      const kernels::CudaLaunches launches = kernels::cufft_launches(call, {4});
      inverses += static_cast<const kernels::CufftArgs*>(loaded.get())->inverse;
      direct += shift == 0 && launches.list.size() == 1;
      EXPECT_EQ(launches.fit(refs), launches.aligned.empty() || shift == 0);
      library->run(launches, refs, false);
      EXPECT_LT(r.difference({aligned(written), aligned(written) + want.size()}, want), error_of(r.type));
      EXPECT_TRUE(std::equal(given.begin(), given.end(), aligned(read))) << "the operand was written";
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(direct, 30u);
  EXPECT_GT(inverses, 30u);
}

// Steps on the GPU at hand.
class OnGpu {
 public:
  explicit OnGpu(const std::vector<Rows>& list) {
    std::vector<CodeUnit> units;
    for (const Rows& r : list) {
      for (CodeUnit& u : step_of(r).code) units.push_back(std::move(u));
    }
    const Target target = cuda_target(Device::open(0)->properties().sm);
    code_ = compiler_for(target).compile(units, target);
    std::vector<CodeImage> images;
    for (const DeviceCode& c : code_) images.push_back({c.portable, static_cast<uint32_t>(c.architecture), c.kernels, c.image});
    gpu_ = std::make_unique<Gpu>(0, images);
    stream_ = std::make_unique<GpuStream>(gpu_->device(), std::make_unique<CudaStream>(gpu_->device()));
  }

  class Step {
   public:
    Step(const OnGpu& on, const Rows& r, std::string_view kernel, size_t shift = 0)
        : on_(on), r_(r), shift_(shift), read_(on.gpu_->device(), r.from.bytes + 64), written_(on.gpu_->device(), r.to.bytes + 64) {
      refs_ = r.refs(reinterpret_cast<std::byte*>(read_.address() + shift), reinterpret_cast<std::byte*>(written_.address() + shift));
      kernel_ = on.gpu_->find(kernel);
      const std::vector<std::byte> constants = kernel == "cufft" ? step_of(r).constants : r.constants();
      loaded_ = kernel_->load(constants, refs_.size(), 0);
      call_.operands = refs_;
      call_.constants = loaded_.get();
      call_.backend = on.gpu_.get();
      call_.stream = on.stream_.get();
      resolved_ = kernel_->resolve(call_);
      scratch_ = DeviceMemory(on.gpu_->device(), std::max<size_t>(resolved_.scratch, 16));
      call_.scratch = reinterpret_cast<std::byte*>(scratch_.address());
      call_.prepared = resolved_.state.get();
    }
    void give(const std::vector<std::byte>& numbers) {
      read_.copy_from(numbers.data(), numbers.size(), nullptr, shift_);
      on_.gpu_->device()->synchronize();
    }
    void run() { kernel_->run(call_); }
    std::vector<std::byte> result() const { return bytes(written_, r_.to.bytes); }
    std::vector<std::byte> operand() const { return bytes(read_, r_.from.bytes); }
    // Microseconds of a run, of many in one recording: the least of a few.
    double time() {
      run();
      on_.stream_->wait();
      constexpr int times = 20, tries = 5;
      auto recording = on_.stream_->record([&] {
        for (int k = 0; k < times; ++k) run();
      });
      double least = 1e9;
      for (int k = 0; k <= tries; ++k) {
        Event from(on_.gpu_->device(), true), to(on_.gpu_->device(), true);
        from.record(on_.stream_->handle());
        on_.stream_->replay(*recording);
        to.record(on_.stream_->handle());
        to.synchronize();
        if (k > 0) least = std::min(least, Event::seconds(from, to) / times * 1e6);
      }
      return least;
    }

   private:
    std::vector<std::byte> bytes(const DeviceMemory& memory, size_t count) const {
      std::vector<std::byte> all(count + shift_);
      on_.stream_->wait();
      memory.copy_to(all.data(), all.size());
      on_.gpu_->device()->synchronize();
      return {all.begin() + static_cast<int64_t>(shift_), all.end()};
    }

    const OnGpu& on_;
    const Rows& r_;
    size_t shift_;
    DeviceMemory read_, written_, scratch_;
    std::vector<TensorRef> refs_;
    const RunKernel* kernel_ = nullptr;
    std::shared_ptr<const void> loaded_;
    Resolved resolved_;
    Call call_;
  };

 private:
  std::vector<DeviceCode> code_;
  std::unique_ptr<Gpu> gpu_;
  std::unique_ptr<GpuStream> stream_;
};

TEST(cufft, results_are_the_cpus) {
  SKIP_WITHOUT(nvrtc);
  SKIP_WITHOUT(gpu);
  if (!has_cufft()) GTEST_SKIP() << "cuFFT is not here";
  std::vector<Rows> list = cases();
  for (Kind kind : {Kind::pair, Kind::of_real, Kind::to_real}) {
    for (int64_t n : {4096, 4097, 6007, 44100, 65536}) list.emplace_back(kind, DType::f32, 3, n, Storage::interleaved, Storage::planar);
  }
  const OnGpu gpu(list);
  for (const Rows& r : list) {
    SCOPED_TRACE(r.name());
    const std::vector<std::byte> given = r.numbers(), want = r.by_cpu(given);
    for (size_t shift : {size_t{0}, ir::size_of(r.type)}) {
      OnGpu::Step step(gpu, r, "cufft", shift);
      step.give(given);
      step.run();
      const std::vector<std::byte> got = step.result();
      EXPECT_LT(r.difference(got, want), error_of(r.type)) << shift;
      EXPECT_EQ(step.operand(), given) << "the operand was written";
      step.run();
      EXPECT_EQ(step.result(), got) << "another run gave other bits";
    }
  }
}

// The table that the offer's numbers come from.
TEST(cufft, speed) {
  if (std::getenv("INGOT_MEASURE") == nullptr) GTEST_SKIP() << "set INGOT_MEASURE=1 to measure";
  if (!has_cufft()) GTEST_SKIP() << "cuFFT is not here";
  constexpr int64_t max_numbers = int64_t{1} << 25;  // numbers of a case
  constexpr Storage storages[] = {Storage::interleaved, Storage::planar, Storage::columns, Storage::blocks};
  fmt::print("microseconds of a run\n{:>8} {:>4} {:>8} {:>8}", "kind", "type", "rows", "length");
  for (Storage storage : storages) fmt::print("  own, {:>7}  cufft, {:>7}", storage_names[static_cast<size_t>(storage)], storage_names[static_cast<size_t>(storage)]);
  for (DType t : {DType::f32, DType::f64}) {
    for (Kind kind : {Kind::pair, Kind::of_real, Kind::to_real}) {
      const OnGpu gpu({Rows(kind, t, 1, 8, Storage::interleaved, Storage::interleaved)});
      for (int64_t n : {2, 4, 8, 16, 32, 64, 97, 128, 256, 400, 512, 768, 1021, 1024, 2048, 3072, 4000, 4096, 4097, 8192, 16384, 44100, 65536, 1 << 18, 1 << 20}) {
        for (int64_t rows : {2, 8, 64, 640, 6400, 64000}) {
          if (rows * n > max_numbers || (t == DType::f64 && rows != 64)) continue;
          fmt::print("\n{:>8} {:>4} {:>8} {:>8}", names_of_kinds[static_cast<size_t>(kind)], ir::name_of(t), rows, n);
          for (Storage storage : storages) {
            for (std::string_view kernel : {"fourier", "cufft"}) {
              const Rows r(kind, t, rows, n, storage, storage);
              fmt::print(" {:{}.2f}", OnGpu::Step(gpu, r, kernel).time(), kernel == "cufft" ? 15 : 13);
            }
          }
        }
      }
    }
  }
  fmt::print("\n");
}

}  // namespace
}  // namespace ingot::backend::cuda
