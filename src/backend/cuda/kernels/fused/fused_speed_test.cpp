// The bandwidth of generated kernels compared with a copy. Only with INGOT_MEASURE=1 (INGOT_MEASURE=all also tries other
// launch shapes): it needs the device for itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "backend/cuda/kernels/fused/fused_cases_test.h"
#include "base/error.h"

namespace ingot::backend::cuda {
namespace {

using ir::DType;

// Seconds per call, for several successive calls; the median of a few tries.
template <class F>
double measure(const DevicePtr& device, const CudaStream& stream, F call) {
  constexpr int calls = 12, tries = 9;
  Event from(device, true), to(device, true);
  std::vector<double> seconds;
  for (int t = 0; t <= tries; ++t) {
    from.record(stream.handle());
    for (int c = 0; c < calls; ++c) call(c);
    to.record(stream.handle());
    to.synchronize();
    if (t > 0) seconds.push_back(Event::seconds(from, to) / calls);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

double copy_bandwidth(const DevicePtr& device, const CudaStream& stream) {
  constexpr size_t bytes = size_t{1} << 30;
  DeviceMemory a(device, bytes), b(device, bytes);
  a.fill(0x3c);
  device->synchronize();
  return 2.0 * static_cast<double>(bytes) / measure(device, stream, [&](int) { copy_on_device(*device, b.address(), a.address(), bytes, stream.handle()); });
}

double bytes_of(const Case& c) {
  double n = 0;
  for (const HostTensor& t : c.tensors) n += static_cast<double>(t.bytes.size());
  return n;
}

TEST(cuda_fused, speed) {
  const char* wanted = std::getenv("INGOT_MEASURE");
  if (wanted == nullptr) GTEST_SKIP() << "set INGOT_MEASURE=1 to measure";
  bool all = std::string_view(wanted) == "all";
  DevicePtr device = Device::open(0);
  CudaStream stream(device);
  double copy = copy_bandwidth(device, stream);
  fmt::print("{}: a copy moves {:.2f} TB/s\n", device->properties().name, copy / 1e12);
  std::vector<Case> bases;
  for (DType t : {DType::f32, DType::f16}) {
    bases.push_back(activation_case(t, 8192, 4096));
    bases.push_back(softmax_case(t, 8192, 4096));
    bases.push_back(layer_norm_case(t, 8192, 4096, false));
    bases.push_back(layer_norm_case(t, 8192, 4096, true));
    bases.push_back(layer_norm_case(t, 12288, 1024, true));
    bases.push_back(softmax_case(t, 1024, 50304));
  }
  for (const Case& base : bases) {
    std::vector<Case> cases = {base, base};
    cases[1].symbolic = true;
    cases[1].name += " symbolic";
    if (all) {
      bool points = base.name.starts_with("gelu");
      for (int units : points ? std::vector<int>{} : std::vector<int>{1, 2, 4}) {
        cases.push_back(base);
        cases.back().tuning = {0, units, 512};
      }
    }
    CompiledCases compiled(cases, 1);
    compiled.compile_for(device->properties().sm, CompileJob::Form::cubin);
    compiled.load(device);
    for (size_t k = 0; k < cases.size(); ++k) {
      // Two sets of tensors, so that the second-level cache holds neither.
      DeviceCase one(cases[k], compiled.emitted(k), device, false), two(cases[k], compiled.emitted(k), device, false);
      device->synchronize();
      double seconds = measure(device, stream, [&](int c) { (c % 2 ? one : two).launch(compiled, k, stream.handle()); });
      double rate = bytes_of(cases[k]) / seconds;
      auto grid = one.grid();
      Function f = compiled.function(k, grid.variant);
      fmt::print("{:<48} units {} variant {} {:>5} x {:>4}, {:>3} registers, {:>3} spilled: {:7.1f} us {:5.0f} GB/s, {:.2f} of copy\n", cases[k].name, cases[k].tuning.units,
                 grid.variant, grid.blocks, grid.threads, f.registers(), f.local_bytes(), seconds * 1e6, rate / 1e9, rate / copy);
    }
  }
}

}  // namespace
}  // namespace ingot::backend::cuda
