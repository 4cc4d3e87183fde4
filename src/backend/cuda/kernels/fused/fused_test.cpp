// Generated CUDA kernels: compiled for several architectures and, if there is a GPU, compared with the CPU's.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>

#include "backend/cuda/available_test.h"
#include "backend/cuda/kernels/fused/fused_cases_test.h"
#include "base/error.h"
#include "base/parallel.h"

namespace ingot::backend::cuda {
namespace {

using ir::DType;

void append(std::vector<Case>& to, std::vector<Case> from) {
  for (Case& c : from) to.push_back(std::move(c));
}

std::vector<Case> cases_of(bool all) {
  std::vector<Case> cases = primitive_cases();
  append(cases, shape_cases());
  append(cases, transposed_cases());
  append(cases, row_cases(all));
  return cases;
}

TEST(cuda_fused, equal_bodies_have_equal_text) {
  std::vector<Case> a = row_cases(true), b = row_cases(true);
  EXPECT_EQ(CompiledCases(a).all_text(), CompiledCases(b).all_text());
}

TEST(cuda_fused, what_is_constant_stands_in_the_text) {
  Case c = softmax_case(DType::f16, 128, 1024);
  Emitted e = emit(c.emitted_body(), c.layouts());
  EXPECT_NE(e.code.text.find("read<8>"), std::string::npos);
  EXPECT_EQ(e.code.text.find("p.number["), e.code.text.npos) << e.code.text;
  c.symbolic = true;
  e = emit(c.emitted_body(), c.layouts());
  EXPECT_NE(e.code.text.find("read<8>"), std::string::npos);
  EXPECT_NE(e.code.text.find("p.number["), std::string::npos);
  EXPECT_TRUE(e.sizes.empty());
}

TEST(cuda_fused, arguments_are_checked) {
  Case c = softmax_case(DType::f32, 4, 64);
  Emitted e = emit(c.emitted_body(), c.layouts());
  EXPECT_EQ(kernels::serialise(kernels::parse_fused_cuda(e.arguments)), e.arguments);
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes = e.arguments;
    bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    std::vector<TensorRef> refs;
    for (const HostTensor& t : c.tensors) refs.push_back({nullptr, t.dtype, 2, t.dims.data(), t.strides.data()});
    try {
      auto args = kernels::parse_fused_cuda(bytes);
      std::vector<int64_t> sizes(args.sizes % 100, 1);
      sizes.push_back(4);
      sizes.push_back(64);
      kernels::resolve_fused_cuda(args, refs, sizes, 99 << 10);
    } catch (const Error& error) {
      EXPECT_TRUE(error.code == Code::format || error.code == Code::unsupported) << error.message;
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(cuda_fused, sizes_that_contradict_the_text_are_refused) {
  Case c = softmax_case(DType::f32, 4, 64);
  Emitted e = emit(c.emitted_body(), c.layouts());
  auto args = kernels::parse_fused_cuda(e.arguments);
  auto resolve = [&](std::vector<int64_t> dims, std::vector<int64_t> strides, std::vector<int64_t> sizes) {
    std::vector<TensorRef> refs(2, {nullptr, DType::f32, 2, dims.data(), strides.data()});
    return kernels::resolve_fused_cuda(args, refs, sizes, 99 << 10);
  };
  EXPECT_EQ(resolve({4, 64}, {64, 1}, {4, 64}).aligned.variant, 0u);
  EXPECT_THROW(resolve({4, 32}, {32, 1}, {4, 32}), Error);
  EXPECT_THROW(resolve({4, 64}, {64, 2}, {4, 64}), Error);
  EXPECT_THROW(resolve({4, 64}, {1, 4}, {4, 64}), Error);
  EXPECT_THROW(resolve({4, 64}, {64, 1}, {64}), Error);
}

// Also empty rows.
TEST(cuda_fused, every_body_finds_a_kernel) {
  for (const Case& c : cases_of(true)) {
    Emitted e = emit(c.emitted_body(), c.layouts());
    auto args = kernels::parse_fused_cuda(e.arguments);
    std::vector<TensorRef> refs;
    for (const HostTensor& t : c.tensors) refs.push_back({nullptr, t.dtype, static_cast<int>(t.dims.size()), t.dims.data(), t.strides.data()});
    std::vector<int64_t> sizes(args.sizes, 1);
    for (const auto* axes : {&c.body.outer, &c.body.row}) {
      for (const ir::Dim& d : *axes) sizes.push_back(d.value());
    }
    EXPECT_NO_THROW(kernels::resolve_fused_cuda(args, refs, sizes, 99 << 10)) << c.name;
  }
}

TEST(cuda_fused, every_body_compiles) {
  SKIP_WITHOUT(nvrtc);
  CompiledCases cases(std::getenv("INGOT_TEST_ALL") != nullptr ? cases_of(false) : primitive_cases());
  for (int sm : {80, 90}) {
    auto start = std::chrono::steady_clock::now();
    size_t bytes = cases.compile_for(sm, CompileJob::Form::cubin);
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    fmt::print("sm_{}: {:.1f} s, {} bytes of text, {} bytes of code\n", sm, took.count(), cases.all_text().size(), bytes);
    EXPECT_GT(bytes, 0u);
  }
}

// One result that may differ by rounding.
bool close(DType t, double got, double want) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (got == want) return true;
  if (!ir::is_float(t) || std::isinf(want) || std::isinf(got)) return false;
  double eps = t == DType::f64 ? 1e-15 : t == DType::f32 ? 4e-6 : t == DType::f16 ? 2e-3 : 1.6e-2;
  return std::fabs(got - want) <= eps * std::max(1.0, std::fabs(want));
}

// The number of elements that were written, which must equal the CPU's.
size_t expect_same_as_cpu(const Case& c, DeviceCase& device) {
  std::vector<HostTensor> tensors = c.tensors;
  std::vector<cpu::FusedStep::View> views;
  for (HostTensor& t : tensors) views.push_back({t.bytes.data(), t.dims, t.strides});
  cpu::FusedStep(c.body, views, inline_workers()).run();
  size_t written = 0;
  for (size_t k = tensors.size() - c.body.stores.size(); k < tensors.size(); ++k) {
    HostTensor got = tensors[k];
    got.bytes = device.read(k);
    size_t wrong = 0, before = written;
    for (size_t e = 0; e < got.elements() && wrong < 4; ++e) {
      written += got.get(e) != c.tensors[k].get(e);
      if (close(got.dtype, got.get(e), tensors[k].get(e))) continue;
      ++wrong;
      ADD_FAILURE() << c.name << ", operand " << k << " (" << ir::name_of(got.dtype) << "), element " << e << ": " << got.get(e) << " instead of " << tensors[k].get(e) << " of "
                    << (e < tensors[0].elements() ? tensors[0].get(e) : 0);
    }
    EXPECT_TRUE(got.elements() == 0 || written > before) << c.name << ": nothing was written";
  }
  return written;
}

TEST(cuda_fused, runs_like_the_cpu) {
  SKIP_WITHOUT(nvrtc);
  SKIP_WITHOUT(gpu);
  DevicePtr device = Device::open(0);
  std::vector<Case> cases = cases_of(true);
  CompiledCases compiled(cases);
  compiled.compile_for(device->properties().sm, CompileJob::Form::cubin);
  compiled.load(device);
  CudaStream stream(device);
  size_t runs = 0, compared = 0;
  for (size_t k = 0; k < cases.size(); ++k) {
    for (bool shifted : {false, true}) {
      SCOPED_TRACE(fmt::format("{}{}", cases[k].name, shifted ? ", shifted" : ""));
      DeviceCase d(cases[k], compiled.emitted(k), device, shifted);
      device->synchronize();
      d.launch(compiled, k, stream.handle());
      stream.synchronize();
      EXPECT_EQ(d.status(), cases[k].status);
      if (cases[k].status == 0) compared += expect_same_as_cpu(cases[k], d);
      ++runs;
    }
  }
  fmt::print("{} bodies, {} runs, {} elements compared\n", cases.size(), runs, compared);
}

// 64-bit indices, which otherwise only tensors of 2^31 elements need.
TEST(cuda_fused, wide_kernels_run_like_the_cpu) {
  SKIP_WITHOUT(nvrtc);
  SKIP_WITHOUT(gpu);
  DevicePtr device = Device::open(0);
  std::vector<Case> cases;
  for (Case& c : cases_of(false)) {
    int64_t elements = 1;
    for (int64_t d : c.domain()) elements *= d;
    if (c.symbolic && elements >= 64) cases.push_back(std::move(c));
  }
  CompiledCases compiled(cases);
  compiled.compile_for(device->properties().sm, CompileJob::Form::cubin);
  compiled.load(device);
  CudaStream stream(device);
  for (size_t k = 0; k < cases.size(); ++k) {
    SCOPED_TRACE(cases[k].name);
    DeviceCase d(cases[k], compiled.emitted(k), device, false, true);
    ASSERT_TRUE(kernels::parse_fused_cuda(compiled.emitted(k).arguments).variants[d.grid().variant].wide);
    device->synchronize();
    d.launch(compiled, k, stream.handle());
    stream.synchronize();
    expect_same_as_cpu(cases[k], d);
  }
  fmt::print("{} bodies\n", cases.size());
}

TEST(cuda_fused, large_sizes_take_wide_kernels) {
  Case c = activation_case(DType::f32, 16, 64);
  c.symbolic = true;
  Emitted e = emit(c.emitted_body(), c.layouts());
  auto args = kernels::parse_fused_cuda(e.arguments);
  auto variant = [&](int64_t rows, int64_t columns) {
    int64_t whole[] = {rows, columns}, row[] = {1, columns}, step[] = {columns, 1}, same[] = {0, 1}, sizes[] = {rows, columns};
    std::vector<TensorRef> refs(5, {nullptr, DType::f32, 2, whole, step});
    refs[1].dims = row;
    refs[1].strides = same;
    return args.variants[kernels::resolve_fused_cuda(args, refs, sizes, 48 << 10).aligned.variant];
  };
  EXPECT_EQ(variant(1 << 10, 1 << 12).vector, 4);
  EXPECT_EQ(variant(1 << 10, (1 << 12) + 1).vector, 1);
  EXPECT_FALSE(variant((1 << 20) - 1, 1 << 12).wide);  // just below 2^32 elements
  EXPECT_TRUE(variant(1 << 20, 1 << 12).wide);
  EXPECT_TRUE(variant(1 << 20, (1 << 12) + 1).wide);
}

TEST(cuda_fused, ptx_runs_too) {
  SKIP_WITHOUT(nvrtc);
  SKIP_WITHOUT(gpu);
  DevicePtr device = Device::open(0);
  std::vector<Case> cases = {softmax_case(DType::f16, 64, 1024)};
  CompiledCases compiled(cases);
  compiled.compile_for(80, CompileJob::Form::ptx);
  compiled.load(device);
  CudaStream stream(device);
  DeviceCase d(cases[0], compiled.emitted(0), device, false);
  device->synchronize();
  d.launch(compiled, 0, stream.handle());
  stream.synchronize();
  expect_same_as_cpu(cases[0], d);
}

}  // namespace
}  // namespace ingot::backend::cuda
