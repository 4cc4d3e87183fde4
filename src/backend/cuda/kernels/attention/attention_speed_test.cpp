// Times and rates of every shape of attention kernel, and whether their results agree. Only with INGOT_MEASURE=1, or a part of
// a case's name: it needs the device for itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

#include "backend/cuda/available_test.h"
#include "backend/cuda/compile/matrix_text.h"
#include "backend/cuda/compile/nvrtc.h"
#include "backend/cuda/compile/prelude.h"
#include "backend/cuda/kernels/attention/attention_text.h"
#include "backend/cuda/kernels/gpu_step_test.h"
#include "backend/cuda/run/gpu.h"
#include "base/error.h"

namespace ingot::backend::cuda {
namespace {

using Args = kernels::AttentionCudaArgs;
using ir::Dim;
using ir::DType;

struct Site {
  std::string name;
  int64_t b, h, s, t, d;
  bool causal = false;
};

std::string described(const Args::Shape& x) {
  if (x.groups == 0) return fmt::format("{} warps, keys {} by {}", x.warps, x.keys, x.splits);
  return fmt::format("{} groups, keys {}, stages {}{}, blocks {}", x.groups, x.keys, x.stages, x.boxes ? ", boxes" : x.overlap ? ", overlap" : "", x.blocks);
}

// One variant, ready to be launched.
struct Ready {
  std::unique_ptr<Gpu> gpu;
  std::unique_ptr<GpuStream> stream;
  std::shared_ptr<const void> constants;
  Resolved resolved;
  Call call;
};

double seconds_of(const DevicePtr& device, const CudaStream& stream, const RunKernel& kernel, const Ready& r) {
  constexpr int calls = 20, tries = 7;
  Event from(device, true), to(device, true);
  std::vector<double> seconds;
  r.stream->set_stream(stream.handle());
  for (int t = 0; t <= tries; ++t) {
    from.record(stream.handle());
    for (int c = 0; c < calls; ++c) kernel.run(r.call);
    to.record(stream.handle());
    to.synchronize();
    if (t > 0) seconds.push_back(Event::seconds(from, to) / calls);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

double value(uint16_t b) {
  const int exponent = b >> 10 & 31, mantissa = b & 1023;
  const double v = exponent == 31 ? NAN : exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return b >> 15 ? -v : v;
}

void measure(const DevicePtr& device, const CudaStream& stream, const Site& s) {
  // Q, K and V side by side in the rows of one tensor, as one GEMM stores them.
  const int64_t row = 3 * s.h * s.d, rows = std::max(s.s, s.t);
  std::vector<uint16_t> host(static_cast<size_t>(s.b * rows * row));
  std::mt19937 random(1);
  for (uint16_t& x : host) x = static_cast<uint16_t>((random() & 0x83ffu) | 0x3400u);  // halves of 0.25 to 0.5, either sign
  DeviceMemory in(device, host.size() * 2), out(device, static_cast<size_t>(s.b * s.s * s.h * s.d) * 2);
  in.copy_from(host.data(), host.size() * 2);
  const std::vector<std::vector<int64_t>> dims = {{s.b, s.h, s.s, s.d}, {s.b, s.h, s.t, s.d}, {s.b, s.h, s.t, s.d}, {s.b, s.h, s.s, s.d}};
  const std::vector<std::vector<int64_t>> strides = {{rows * row, s.d, row, 1}, {rows * row, s.d, row, 1}, {rows * row, s.d, row, 1}, {s.s * s.h * s.d, s.d, s.h * s.d, 1}};
  std::vector<StridedLayout> layouts;
  std::vector<TensorRef> operands;
  for (size_t k = 0; k < 4; ++k) {
    layouts.push_back({dims_of(dims[k]), dims_of(strides[k]), Dim(0)});
    const Address address = k < 3 ? in.address() + k * static_cast<size_t>(s.h * s.d) * 2 : out.address();
    operands.push_back({reinterpret_cast<std::byte*>(address), DType::f16, 4, dims[k].data(), strides[k].data()});
  }
  Attention a{DType::f16};
  a.scale = 1 / std::sqrt(static_cast<double>(s.d));
  a.causal = s.causal;
  a.batch_rank = 2;
  a.s = s.s, a.t = s.t, a.d = s.d, a.e = s.d;
  const int sm = device->properties().sm;
  std::vector<EmittedAttention> codes;
  std::vector<CodeUnit> units;
  std::vector<CompileJob> jobs;
  for (int v = 0; v < Args::measured; ++v) {
    codes.push_back(emit_attention(a, nullptr, layouts, false, v));
    units.push_back(codes.back().printed.unit(codes.back().name, ParametersOf::step));
    jobs.push_back({std::string(prelude()) + matrix_texts() + std::string(attention_text()) + units.back().text, sm, CompileJob::Form::cubin, true});
  }
  const Compiled compiled = compile(jobs);
  const double flops = 4.0 * static_cast<double>(s.b * s.h * s.s * s.t * s.d) * (s.causal ? 0.5 : 1);
  std::vector<uint16_t> wanted, found(out.size() / 2);
  fmt::print("{}\n", s.name);
  // The first one uses single warps.
  std::vector<int> order = {Args::any_address};
  for (int v = 0; v < Args::measured; ++v) {
    if (v != Args::any_address) order.push_back(v);
  }
  const std::vector<int64_t> sizes = {s.s, s.t, s.d, s.d};
  std::vector<std::pair<double, int>> times;
  for (int v : order) {
    const auto k = static_cast<size_t>(v);
    Ready r;
    r.gpu = std::make_unique<Gpu>(0, std::vector<CodeImage>{{false, static_cast<uint32_t>(sm), units[k].kernels, compiled.code[k]}});
    r.stream = std::make_unique<GpuStream>(r.gpu->device());
    const RunKernel& kernel = *r.gpu->find("attention");
    r.constants = kernel.load(codes[k].arguments, operands.size(), sizes.size());
    r.call.operands = operands;
    r.call.sizes = sizes;
    r.call.constants = r.constants.get();
    r.call.backend = r.gpu.get();
    r.call.stream = r.stream.get();
    const Args::Shape shape = kernels::parse_attention_cuda(codes[k].arguments).shape(v);
    std::string line = fmt::format("  {:>2}  {:<48}", v, described(shape));
    try {
      r.resolved = kernel.resolve(r.call);
      r.call.prepared = r.resolved.state.get();
      std::fill(found.begin(), found.end(), uint16_t{0x7fff});
      out.copy_from(found.data(), out.size());
      const double seconds = seconds_of(device, stream, kernel, r);
      times.push_back({seconds, v});
      out.copy_to(found.data(), out.size());
      device->synchronize();
      if (wanted.empty()) wanted = found;
      double worst = 0, size = 0;
      for (size_t e = 0; e < found.size(); ++e) {
        const double x = value(found[e]), y = value(wanted[e]);
        worst = std::max(worst, std::isfinite(x) ? std::abs(x - y) : INFINITY);
        size = std::max(size, std::abs(y));
      }
      line += fmt::format(" {:8.2f} us {:6.1f} TFLOP/s, {:3} KB, differs by {:.1e} of {:.1e}", seconds * 1e6, flops / seconds / 1e12,
                          shape.shared(static_cast<uint32_t>(s.d), static_cast<uint32_t>(s.d)) >> 10, worst, size);
      EXPECT_LE(worst, 4e-3 * size) << s.name << ", variant " << v;
    } catch (const std::exception& e) {
      line += fmt::format(" {}", e.what());
    }
    fmt::print("{}\n", line);
  }
  if (!times.empty()) fmt::print("  best: {}\n", std::min_element(times.begin(), times.end())->second);
}

TEST(cuda_attention, speed) {
  const char* const wanted = std::getenv("INGOT_MEASURE");
  if (wanted == nullptr) GTEST_SKIP() << "set INGOT_MEASURE=1 to measure";
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  DevicePtr device = Device::open(0);
  CudaStream stream(device);
  const Site sites[] = {
      {"BERT-large, 32 x 16 heads of 64, 384", 32, 16, 384, 384, 64},
      {"ViT-B/16, 32 x 12 heads of 64, 197", 32, 12, 197, 197, 64},
      {"8 x 16 heads of 64, 128", 8, 16, 128, 128, 64},
      {"1 x 16 heads of 64, 128", 1, 16, 128, 128, 64},
      {"1 x 12 heads of 64, 197", 1, 12, 197, 197, 64},
      {"1 x 32 heads of 128, 1 of 1", 1, 32, 1, 1, 128},
      {"4 x 32 heads of 128, 1024, causal", 4, 32, 1024, 1024, 128, true},
      {"UNet, 2 x 8 heads of 40, 4096", 2, 8, 4096, 4096, 40},
      {"UNet, 2 x 8 heads of 40, 4096 of 77", 2, 8, 4096, 77, 40},
      {"UNet, 2 x 8 heads of 80, 1024", 2, 8, 1024, 1024, 80},
      {"UNet, 2 x 8 heads of 80, 1024 of 77", 2, 8, 1024, 77, 80},
      {"UNet, 2 x 8 heads of 160, 256", 2, 8, 256, 256, 160},
      {"Swin, 2048 x 3 heads of 32, 49", 2048, 3, 49, 49, 32},
      {"SDXL, 2 x 10 heads of 64, 4096", 2, 10, 4096, 4096, 64},
      {"SDXL, 2 x 20 heads of 64, 1024", 2, 20, 1024, 1024, 64},
      {"SDXL, 2 x 20 heads of 64, 1024 of 77", 2, 20, 1024, 77, 64},
      {"SD3, 2 x 24 heads of 64, 1178", 2, 24, 1178, 1178, 64},
      {"SD3, 2 x 24 heads of 64, 4250", 2, 24, 4250, 4250, 64},
      {"4 x 16 heads of 128, 2048", 4, 16, 2048, 2048, 128},
  };
  for (const Site& s : sites) {
    if (wanted == std::string("1") || s.name.find(wanted) != std::string::npos) measure(device, stream, s);
  }
}

}  // namespace
}  // namespace ingot::backend::cuda
