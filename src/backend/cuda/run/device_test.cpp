#include "backend/cuda/run/device.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "backend/cuda/compile/nvrtc.h"
#include "base/error.h"

namespace ingot::backend::cuda {
namespace {

std::string gpu_missing() {
  try {
    return device_count() > 0 ? std::string() : "this process sees no GPU";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::device);
    EXPECT_FALSE(e.remedy.empty());
    return e.message + "; " + e.remedy;
  }
}
#define SKIP_WITHOUT_GPU \
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why

TEST(cuda_device, properties) {
  SKIP_WITHOUT_GPU;
  DevicePtr device = Device::open(0);
  const DeviceProperties& p = device->properties();
  fmt::print("{}: sm_{}, {} multiprocessors of {} threads, {} bytes of memory, {} of L2, {} of shared memory a block, driver {}\n", p.name, p.sm, p.multiprocessors, p.threads,
             p.memory, p.l2, p.shared_block, p.driver);
  EXPECT_GE(p.sm, 70);
  EXPECT_GT(p.multiprocessors, 0);
  EXPECT_GT(p.l2, 0u);
  EXPECT_LE(device->free_memory(), p.memory);
  try {
    Device::open(999);
    FAIL() << "opened";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::invalid_input);
    EXPECT_NE(e.message.find("there is no GPU number 999"), std::string::npos);
  }
}

TEST(cuda_device, memory_goes_there_and_back) {
  SKIP_WITHOUT_GPU;
  DevicePtr device = Device::open(0);
  std::vector<int> host(100000), back(host.size());
  for (size_t k = 0; k < host.size(); ++k) host[k] = static_cast<int>(k * k);
  size_t bytes = host.size() * sizeof(int);
  std::thread([&] {  // a thread without a current context
    DeviceMemory a(device, bytes), b(device, bytes), none(device, 0);
    EXPECT_EQ(none.address(), 0u);
    CudaStream stream(device), other(device);
    Event done(device);
    a.copy_from(host.data(), bytes, stream.handle());
    done.record(stream.handle());
    other.wait(done);
    copy_on_device(*device, b.address(), a.address(), bytes, other.handle());
    b.copy_to(back.data(), bytes, other.handle());
    other.synchronize();
    EXPECT_THROW(a.copy_from(host.data(), bytes, nullptr, 1), Error);
    DeviceMemory moved = std::move(a);
    EXPECT_EQ(a.address(), 0u);
  })
      .join();
  EXPECT_EQ(host, back);
}

TEST(cuda_device, too_much_memory_is_an_error_of_its_own) {
  SKIP_WITHOUT_GPU;
  DevicePtr device = Device::open(0);
  size_t bytes = device->properties().memory * 2;
  try {
    DeviceMemory m(device, bytes);
    FAIL() << "allocated";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::out_of_memory);
    EXPECT_NE(e.message.find(fmt::format("allocating {} bytes", bytes)), std::string::npos) << e.message;
    EXPECT_NE(e.message.find("CUDA_ERROR_OUT_OF_MEMORY"), std::string::npos) << e.message;
  }
  DeviceMemory small(device, 1 << 20);  // and nothing is broken
  small.fill(1);
  device->synchronize();
}

TEST(cuda_device, modules) {
  SKIP_WITHOUT_GPU;
  DevicePtr device = Device::open(0);
  try {
    Module m(device, std::as_bytes(std::span("this is not code")));
    FAIL() << "loaded";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::device);
    EXPECT_NE(e.message.find("loading 16 bytes of code"), std::string::npos) << e.message;
  }
  std::vector<std::byte> code;
  try {
    code = compile(std::vector<CompileJob>{{"struct P { int* to; int value; };\nextern \"C\" __global__ void set(const __grid_constant__ P p) { p.to[threadIdx.x] = p.value; }\n",
                                            device->properties().sm, CompileJob::Form::cubin}})
               .code[0];
  } catch (const Error& e) {
    GTEST_SKIP() << e.message;
  }
  Module module(device, code);
  EXPECT_THROW(module.function("get"), Error);
  Function set = module.function("set");
  EXPECT_GT(set.registers(), 0);
  EXPECT_EQ(set.local_bytes(), 0);
  DeviceMemory to(device, 64 * 4);
  struct {
    Address to;
    int value;
  } p{to.address(), 7};
  CudaStream stream(device);
  Event from(device, true), until(device, true);
  from.record(stream.handle());
  set.launch({1, 64, 0}, std::as_bytes(std::span(&p, 1)), stream.handle());
  until.record(stream.handle());
  stream.synchronize();
  EXPECT_GT(Event::seconds(from, until), 0);
  std::vector<int> got(64);
  to.copy_to(got.data(), 256);
  EXPECT_EQ(got, std::vector<int>(64, 7));
  try {
    set.launch({1, 4096, 0}, std::as_bytes(std::span(&p, 1)), stream.handle());
    FAIL() << "started";
  } catch (const Error& e) {
    EXPECT_NE(e.message.find("starting set with 1 blocks of 4096 threads"), std::string::npos) << e.message;
  }
}

}  // namespace
}  // namespace ingot::backend::cuda
