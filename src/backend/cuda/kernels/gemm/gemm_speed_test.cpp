// Ingot's own GEMM kernels compared with cuBLASLt's: times, rates, and whether results agree. Only with INGOT_MEASURE=1: it needs the device for itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <random>

#include "backend/cuda/kernels/gemm/gemm.h"
#include "backend/cuda/kernels/gemm/gemm_step.h"
#include "backend/cuda/kernels/gemm/run/gemm_args.h"
#include "backend/cuda/kernels/gemm/run/implementation.h"
#include "backend/cuda/kernels/gpu_step_test.h"
#include "base/error.h"

namespace ingot::backend::cuda {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;

struct Site {
  std::string name;
  int64_t m, n, k;
  bool b_along_k = true;
  int64_t image = 0, channels = 0, stride = 1;  // a 3 x 3 convolution of [m / places, image, image, channels]
  bool residual = false;                        // epilogue relu(acc + residual), else gelu(acc + bias)
  int64_t window = 3;
  DType type = DType::f16;
  bool channels_last = true;                    // few channels: K is (channel, h, w) in either layout, with the epilogue relu(acc + bias)
  bool has_few_channels() const { return image > 0 && channels < 8; }
};

// A tensor on the device with numbers around 0.
struct Tensor {
  std::vector<int64_t> dims, strides;
  DType dtype;
  DeviceMemory memory;

  Tensor(const DevicePtr& device, std::vector<int64_t> d, DType t, bool transposed = false) : dims(std::move(d)), strides(dims.size(), 1), dtype(t) {
    for (size_t a = dims.size() - 1; a-- > 0;) strides[a] = strides[a + 1] * dims[a + 1];
    if (transposed) strides = {1, dims[0]};
    size_t count = 1;
    for (int64_t n : dims) count *= static_cast<size_t>(n);
    std::mt19937 random(static_cast<uint32_t>(count));
    // Numbers of 0.125 to 0.25 of either sign.
    auto fill = [&](auto bits) {
      std::vector<decltype(bits(0u))> host(count);
      for (auto& h : host) h = bits(static_cast<uint32_t>(random()));
      memory = DeviceMemory(device, count * sizeof host[0]);
      memory.copy_from(host.data(), count * sizeof host[0]);
      device->synchronize();
    };
    if (t == DType::f32) {
      fill([](uint32_t r) { return (r & 0x807fffffu) | 0x3e000000u; });
    } else {
      fill([](uint32_t r) { return static_cast<uint16_t>((r & 0x83ffu) | 0x3000u); });
    }
  }
  TensorRef ref() const { return {reinterpret_cast<std::byte*>(memory.address()), dtype, static_cast<int>(dims.size()), dims.data(), strides.data()}; }
  StridedLayout layout() const { return {dims_of(dims), dims_of(strides), Dim(0)}; }
};

std::vector<int64_t> sizes_of(const EmittedStep& step) {
  std::vector<int64_t> out;
  for (const Dim& d : step.sizes) out.push_back(d.value());
  return out;
}

double seconds_of(const DevicePtr& device, const CudaStream& stream, GpuStep& r) {
  constexpr int calls = 20, tries = 7;
  Event from(device, true), to(device, true);
  std::vector<double> seconds;
  r.run(stream.handle());
  std::unique_ptr<Recording> recording = r.record(calls);
  for (int t = 0; t <= tries; ++t) {
    from.record(stream.handle());
    r.replay(*recording, stream.handle());
    to.record(stream.handle());
    to.synchronize();
    if (t > 0) seconds.push_back(Event::seconds(from, to) / calls);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

std::vector<double> values(const DevicePtr& device, const Tensor& t) {
  if (t.dtype == DType::f32) {
    std::vector<float> floats(t.memory.size() / 4);
    t.memory.copy_to(floats.data(), t.memory.size());
    device->synchronize();
    return {floats.begin(), floats.end()};
  }
  std::vector<uint16_t> bits(t.memory.size() / 2);
  t.memory.copy_to(bits.data(), t.memory.size());
  device->synchronize();
  std::vector<double> out;
  for (uint16_t b : bits) {
    int exponent = b >> 10 & 31, mantissa = b & 1023;
    double v = exponent == 31 ? NAN : exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    out.push_back(b >> 15 ? -v : v);
  }
  return out;
}

void measure(const DevicePtr& device, const CudaStream& stream, const Site& s) {
  Tensor b(device, {s.k, s.n}, s.type, s.b_along_k), bias(device, {1, s.n}, s.type), out(device, {s.m, s.n}, s.type), other(device, {s.m, s.n}, s.type);
  const int64_t places = s.image / s.stride, images = s.image > 0 ? s.m / (places * places) : 0;
  const std::vector<int64_t> image = s.has_few_channels() ? std::vector{images, s.channels, s.image, s.image} : std::vector{images, s.image, s.image, s.channels};
  Tensor a = s.image > 0 ? Tensor(device, image, s.type) : Tensor(device, {s.m, s.k}, s.type);
  if (s.has_few_channels() && s.channels_last) a.strides = {s.channels * s.image * s.image, 1, s.channels * s.image, s.channels};
  Gemm p;
  p.type = s.type;
  p.constant = true;
  p.a = a.layout();
  p.b = {b.layout()};
  if (s.image > 0) {
    p.m_rank = 3;
    p.map = windows_of(images, places, places, s.channels, s.window, s.stride, s.window / 2);
  }
  if (s.has_few_channels()) {
    p.map->dims = dims_of({images, places, places, s.channels, s.window, s.window});
    const Dim start(-(s.window / 2));
    p.map->axes = {{0, {{0, 1}}}, {0, {{3, 1}}}, {start, {{1, s.stride}, {4, 1}}}, {start, {{2, s.stride}, {5, 1}}}};
  }
  auto body_of = [&](bool gelu) {
    FusedBody body;
    body.outer = {Dim(s.m)};
    body.row = {Dim(s.n)};
    auto add = [&](Instruction i) {
      i.dtype = DType::f32;
      body.code.push_back(std::move(i));
      return static_cast<Reg>(body.code.size() - 1);
    };
    Instruction i{};
    i.kind = Instruction::Kind::accumulator;
    Reg r = add(i);
    if (gelu) {
      Instruction load{}, sum{}, f{};
      load.kind = Instruction::Kind::load;
      sum.kind = f.kind = Instruction::Kind::map;
      sum.op = Op::add;
      sum.in = {r, add(load)};
      f.op = s.residual || s.has_few_channels() || s.type == DType::f32 ? Op::relu : Op::gelu;
      f.in = {add(sum)};
      r = add(f);
      body.operands.push_back(s.type);
    }
    body.stores = {{static_cast<uint32_t>(body.operands.size()), r}};
    body.operands.push_back(s.type);
    return body;
  };
  const double flops = 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k),
               bytes = static_cast<double>(ir::size_of(s.type)) * static_cast<double>(s.k) * static_cast<double>(s.n);
  std::string line = fmt::format("{:<44}", s.name);
  auto tell = [&](std::string_view who, double seconds) {
    line += fmt::format(" {} {:8.2f} us {:6.1f} TFLOP/s {:5.2f} TB/s;", who, seconds * 1e6, flops / seconds / 1e12, bytes / seconds / 1e12);
  };
  bool compared = s.has_few_channels();
  if (s.image == 0) {
    const Taken library = take(library_gemm(p, body_of(false), {other.layout()}, true));
    ASSERT_EQ(library.obstacle, std::nullopt);
    GpuStep r(library.step, "", {}, {a.ref(), b.ref(), other.ref()}, sizes_of(library.step));
    tell("library", seconds_of(device, stream, r));
    compared = true;
    if (s.residual || s.type == DType::f32) {
      bias.strides[0] = 0;
      const Tensor& more = s.residual ? other : bias;
      const Taken whole = take(library_gemm(p, body_of(true), {more.layout(), out.layout()}, true));
      ASSERT_EQ(whole.obstacle, std::nullopt);
      GpuStep all(whole.step, "", {}, {a.ref(), b.ref(), more.ref(), out.ref()}, sizes_of(whole.step));
      tell(s.residual ? "library, residual" : "library, relu", seconds_of(device, stream, all));
    }
  }
  for (bool gelu : {true, false}) {
    if (s.has_few_channels() && !gelu) continue;
    std::vector<StridedLayout> layouts;
    std::vector<TensorRef> operands = {a.ref(), b.ref()};
    if (gelu) {
      layouts.push_back(s.residual ? other.layout() : bias.layout());
      operands.push_back(s.residual ? other.ref() : bias.ref());
    }
    layouts.push_back(out.layout());
    operands.push_back(out.ref());
    // Convolutions of few channels have no large tiles: compare with the kernel for any map.
    const int tiles = !gelu || s.m == 1 ? 0 : s.has_few_channels() ? 1 : static_cast<int>(std::size(kernels::large_tiles));
    for (int tile = -1; tile < tiles; ++tile) {
      if (tile >= 0 && !kernels::large_tiles[tile].takes(s.n, false, s.type == DType::f32)) continue;
      if (s.has_few_channels() && tile >= 0) operands.back() = other.ref();
      const Taken own = own_gemm(p, body_of(gelu), layouts, true, tile < 0 ? all_tiles : static_cast<uint16_t>(1u << tile));
      ASSERT_EQ(own.obstacle, std::nullopt);
      GpuStep r(own.step, text_with_libraries(own.step.code[0]), own.step.code[0].kernels, operands, sizes_of(own.step));
      double seconds = seconds_of(device, stream, r);
      if (tile < 0) tell(!gelu ? "own" : s.residual ? "own, residual" : s.has_few_channels() || s.type == DType::f32 ? "own, relu" : "own, gelu", seconds);
      if (tile >= 0) line += fmt::format("{}{:.2f}{}", tile == 0 ? " (" : ", ", seconds * 1e6, tile + 1 == tiles ? ")" : "");
      r.wait();
    }
  }
  if (compared) {
    device->synchronize();
    std::vector<double> x = values(device, out), y = values(device, other);
    double worst = 0, size = 0;
    for (size_t e = 0; e < x.size(); ++e) {
      worst = std::max(worst, std::isfinite(x[e]) ? std::abs(x[e] - y[e]) : INFINITY);
      size = std::max(size, std::abs(y[e]));
    }
    line += fmt::format(" differ by {:.1e} of {:.1e}", worst, size);
    EXPECT_LE(worst, 4e-3 * size) << s.name;
  }
  fmt::print("{}\n", line);
}

TEST(cuda_gemm, speed) {
  if (std::getenv("INGOT_MEASURE") == nullptr) GTEST_SKIP() << "set INGOT_MEASURE=1 to measure";
  DevicePtr device = Device::open(0);
  CudaStream stream(device);
  std::vector<Site> sites;
  auto linear = [&](int64_t m, int64_t n, int64_t k, bool along_k = true) {
    sites.push_back({fmt::format("{} x {} x {}{}", m, n, k, along_k ? "" : ", B along N"), m, n, k, along_k});
  };
  for (int64_t m : {128, 1024, 12288}) {
    linear(m, 3072, 1024);
    linear(m, 4096, 1024);
    linear(m, 1024, 4096);
  }
  linear(8192, 8192, 8192);
  for (int64_t m : {197, 6304}) linear(m, 3072, 768);
  for (auto [n, k] : {std::pair<int64_t, int64_t>{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}, {128256, 4096}}) linear(1, n, k);
  for (int64_t m : {1, 2, 4, 8}) {
    for (auto [n, k] : {std::pair<int64_t, int64_t>{1536, 1536}, {9216, 1536}, {4096, 4096}, {28672, 4096}, {128256, 4096}}) {
      linear(m, n, k);
      sites.back().name = "few rows, " + sites.back().name;
    }
  }
  linear(100352, 64, 256, false);
  linear(100352, 128, 256, false);
  linear(100352, 256, 64, false);
  linear(6272, 1024, 256, false);
  linear(1568, 512, 2048, false);
  for (auto [m, n, k] : {std::array<int64_t, 3>{100352, 256, 64}, {25088, 512, 128}, {6272, 1024, 256}, {1568, 2048, 512}}) {
    linear(m, n, k, false);
    sites.back().name += ", residual";
    sites.back().residual = true;
  }
  for (int64_t batch : {1, 32}) {
    for (auto [image, channels] : {std::pair<int64_t, int64_t>{56, 64}, {28, 128}, {14, 256}, {7, 512}}) {
      sites.push_back({fmt::format("convolution {} x {} x {} x {}", batch, image, image, channels), batch * image * image, channels, 9 * channels, false, image, channels});
    }
  }
  for (auto [image, in, columns] :
       {std::array<int64_t, 3>{64, 320, 320}, {64, 640, 320}, {64, 960, 320}, {32, 640, 640}, {32, 1920, 640}, {16, 1280, 1280}, {16, 2560, 1280}, {8, 1280, 1280}}) {
    sites.push_back({fmt::format("UNet, 2 x {} x {} x {} by {}", image, image, in, columns), 2 * image * image, columns, 9 * in, false, image, in});
  }
  for (auto [image, in, columns] : {std::array<int64_t, 3>{64, 512, 512}, {256, 512, 256}, {512, 256, 256}, {512, 128, 128}}) {
    sites.push_back({fmt::format("VAE, {} x {} x {} by {}", image, image, in, columns), image * image, columns, 9 * in, false, image, in});
  }
  for (auto [m, n, k] : {std::array<int64_t, 3>{8192, 320, 320}, {2048, 640, 640}, {512, 1280, 1280}, {8192, 2560, 320}, {8192, 320, 1280}, {2048, 5120, 640}, {2048, 640, 2560}}) {
    linear(m, n, k);
    sites.back().name = "UNet, " + sites.back().name;
  }
  for (auto [m, n, k] : {std::array<int64_t, 3>{2048, 1280, 1280},
                         {2048, 1280, 5120},
                         {2048, 3840, 1280},
                         {2048, 10240, 1280},
                         {8192, 640, 640},
                         {8192, 640, 2560},
                         {8192, 1920, 640},
                         {2048, 1536, 1536},
                         {2048, 1536, 6144},
                         {2048, 4608, 1536},
                         {2048, 6144, 1536},
                         {2356, 4608, 1536},
                         {2356, 6144, 1536},
                         {308, 1536, 1536},
                         {308, 1536, 6144},
                         {308, 4608, 1536},
                         {308, 6144, 1536}}) {
    linear(m, n, k);
    sites.back().name = "diffusion, " + sites.back().name;
    linear(m, n, k);
    sites.back().name = "diffusion, residual, " + sites.back().name;
    sites.back().residual = true;
  }
  for (auto [m, n, k] : {std::array<int64_t, 3>{401408, 96, 16}, {100352, 144, 24}, {25088, 240, 40}, {100352, 384, 96}, {6272, 1536, 384}, {6272, 384, 1536}}) {
    linear(m, n, k);
    sites.back().name = "edge, " + sites.back().name;
  }
  for (int64_t batch : {1, 32}) {
    for (bool last : {true, false}) {
      const std::string how = last ? ", channels last" : "";
      sites.push_back({fmt::format("first layer {} x 224 x 224 x 3{}", batch, how), batch * 112 * 112, 64, 147, true, 224, 3, 2, false, 7, DType::f16, last});
      sites.push_back({fmt::format("first layer {} x 224 x 224 x 3 by 3 x 3{}", batch, how), batch * 224 * 224, 64, 27, true, 224, 3, 1, false, 3, DType::f16, last});
    }
  }
  // ResNet-50 in float32 at batch 8, with an epilogue of bias or residual and ReLU, compared with the library's fastest algorithm.
  auto floats = [&](Site s) {
    s.name = "float32, " + s.name;
    s.type = DType::f32;
    sites.push_back(std::move(s));
  };
  for (auto [image, channels] : {std::pair<int64_t, int64_t>{56, 64}, {28, 128}, {14, 256}, {7, 512}}) {
    floats({fmt::format("convolution 8 x {} x {} x {}", image, image, channels), 8 * image * image, channels, 9 * channels, true, image, channels});
    floats({fmt::format("convolution 8 x {} x {} x {}, stride 2", 2 * image, 2 * image, channels), 8 * image * image, channels, 9 * channels, true, 2 * image, channels, 2});
  }
  for (auto [m, n, k] : {std::array<int64_t, 3>{25088, 64, 256}, {25088, 64, 64}, {6272, 128, 512}, {1568, 256, 1024}, {392, 512, 2048}, {8192, 4096, 4096}}) {
    floats({fmt::format("{} x {} x {}", m, n, k), m, n, k});
  }
  for (auto [m, n, k] : {std::array<int64_t, 3>{25088, 256, 64}, {6272, 512, 128}, {1568, 1024, 256}, {392, 2048, 512}}) {
    floats({fmt::format("{} x {} x {}, residual", m, n, k), m, n, k, true, 0, 0, 1, true});
  }
  floats({"convolution 8 x 56 x 56 x 64, B along N", 25088, 64, 576, false, 56, 64});
  for (bool last : {true, false}) {
    floats({fmt::format("first layer 8 x 224 x 224 x 3{}", last ? ", channels last" : ""), 8 * 112 * 112, 64, 147, true, 224, 3, 2, false, 7, DType::f32, last});
  }
  // INGOT_MEASURE=1: all of them; else those whose name contains it.
  const std::string wanted = std::getenv("INGOT_MEASURE");
  for (const Site& s : sites) {
    if (wanted == "1" || s.name.find(wanted) != std::string::npos) measure(device, stream, s);
  }
}

}  // namespace
}  // namespace ingot::backend::cuda
