// Sessions on a GPU, if there is one: memory of both sides, streams, recordings, state, errors of kernels, threads.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <thread>

#include "backend/cuda/available_test.h"
#include "runtime/session_test.h"

namespace ingot::runtime {
namespace {

using backend::cuda::CudaStream;
using backend::cuda::Device;
using backend::cuda::DeviceMemory;
using backend::cuda::DevicePtr;

std::shared_ptr<const plan::Plan> compiled(const std::string& text, const std::vector<std::vector<float>>& weights = {}) {
  compile::Options options;
  options.set("target", "cuda:sm_90");
  return compile(text, weights, options);
}

// y = log(exp(x @ w)): a GEMM and a body; w = [[1, 2], [3, 4]].
std::shared_ptr<const plan::Plan> product() {
  return compiled(
      "%0 = input() {name=\"x\"} : f32[B, 2]\n%1 = weight() {name=\"w\"} : f32[2, 2]\n%2 = matmul(%0, %1) {} : f32[B, 2]\n%3 = exp(%2) {} : f32[B, 2]\n"
      "%4 = log(%3) {} : f32[B, 2]\noutput %4 \"y\" []\n",
      {{1, 2, 3, 4}});
}

std::shared_ptr<Weights> on_gpu(std::shared_ptr<const plan::Plan> plan) { return std::make_shared<Weights>(std::move(plan), 1, system_allocator(), "cuda"); }

HostTensor at(Tensor& t, const DeviceMemory& memory) {
  HostTensor out = t.host();
  out.data = reinterpret_cast<void*>(memory.address());
  return out;
}

void expect_product(const std::vector<float>& y, const std::vector<float>& x, size_t rows) {
  for (size_t r = 0; r < rows; ++r) {
    EXPECT_NEAR(y[2 * r], x[2 * r] + 3 * x[2 * r + 1], 1e-5f) << r;
    EXPECT_NEAR(y[2 * r + 1], 2 * x[2 * r] + 4 * x[2 * r + 1], 1e-5f) << r;
  }
}

#define SKIP_WITHOUT_ALL \
  SKIP_WITHOUT(nvrtc); \
  SKIP_WITHOUT(gpu)

TEST(Gpu, MemoryOfTheHostWithAnyStrides) {
  SKIP_WITHOUT_ALL;
  Session session(on_gpu(product()), 0, {1});
  Tensor x{{1, 0, 2, 0, 0, 1}, {3, 2}, {1, 3}};  // columns of three
  for (int run = 0; run < 5; ++run) {
    Tensor y{std::vector<float>(6), {3, 2}};
    x.data[0] = static_cast<float>(run);
    HostTensor in = x.host(), out = y.host();
    session.run({&in, 1}, {&out, 1});
    expect_product(y.data, {x.data[0], x.data[3], x.data[1], x.data[4], x.data[2], x.data[5]}, 3);
  }
  EXPECT_EQ(session.kept_sizes(), 1u);
}

TEST(Gpu, MemoryOfTheGpuInTheCallersStream) {
  SKIP_WITHOUT_ALL;
  DevicePtr device = Device::open(0);
  CudaStream stream(device);
  Session session(on_gpu(product()), 0, {1});
  session.set_stream(stream.handle());
  std::vector<DeviceMemory> in, out;
  for (int k = 0; k < 2; ++k) {
    in.emplace_back(device, 16);
    out.emplace_back(device, 16);
  }
  // Addresses alternate, then stay: plain runs, recording, replay.
  for (int run = 0; run < 10; ++run) {
    size_t k = run < 4 ? static_cast<size_t>(run) % 2 : 0;
    Tensor x{{static_cast<float>(run), 1, -1, 0.5f}, {2, 2}}, y{std::vector<float>(4), {2, 2}};
    in[k].copy_from(x.data.data(), 16, stream.handle());
    HostTensor a = at(x, in[k]), b = at(y, out[k]);
    session.run({&a, 1}, {&b, 1});
    out[k].copy_to(y.data.data(), 16, stream.handle());
    session.wait();
    expect_product(y.data, x.data, 2);
  }
}

void expect_refused(Session& session, const HostTensor& in, const HostTensor& out, const std::string& message, const std::string& remedy) {
  try {
    session.run({&in, 1}, {&out, 1});
    FAIL() << "ran";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::unsupported);
    EXPECT_EQ(e.message, message);
    EXPECT_EQ(e.remedy, remedy);
  }
}

TEST(Gpu, StridesOnTheGpuAreRefused) {
  SKIP_WITHOUT_ALL;
  DevicePtr device = Device::open(0);
  DeviceMemory memory(device, 64);
  Session session(on_gpu(product()), 0, {1});
  Tensor x{std::vector<float>(8), {2, 2}, {1, 2}}, y{std::vector<float>(4), {2, 2}};
  expect_refused(session, at(x, memory), y.host(), "\"x\" is on the GPU with strides", "give a contiguous tensor");
}

TEST(Gpu, AnInputIsReadAsItLies) {
  SKIP_WITHOUT_ALL;
  Session session(on_gpu(compiled("%0 = input() {name=\"x\", order=[1, 0]} : f32[2, B]\n%1 = view(%0) {map=map([B, 2] <- [<0> + 1*i1, <0> + 1*i0])} : f32[B, 2]\n"
                                  "%2 = add(%1, %1) {} : f32[B, 2]\noutput %2 \"y\" []\n")),
                  0, {1});
  Tensor columns{{0, 2, 4, 1, 3, 5}, {3, 2}, {1, 3}}, rows{{0, 1, 2, 3, 4, 5}, {3, 2}}, y{std::vector<float>(6), {3, 2}};
  const std::vector<float> expected{0, 2, 4, 6, 8, 10};
  DevicePtr device = Device::open(0);
  DeviceMemory memory(device, 24);
  memory.copy_from(columns.data.data(), 24, nullptr);
  HostTensor out = y.host();
  for (HostTensor in : {columns.host(), rows.host(), at(columns, memory)}) {
    std::fill(y.data.begin(), y.data.end(), 0.0f);
    session.run({&in, 1}, {&out, 1});
    EXPECT_EQ(y.data, expected);
  }
  expect_refused(session, at(rows, memory), out, "\"x\" is on the GPU with other strides", "give a tensor whose axes in memory have the order 1, 0");
}

TEST(Gpu, AWeightIsReadAsItLies) {
  SKIP_WITHOUT_ALL;
  auto weights =
      on_gpu(compiled("%0 = input() {name=\"x\"} : f32[3, 2]\n%1 = weight() {name=\"w\", order=[1, 0]} : f32[2, 3]\n"
                      "%2 = view(%1) {map=map([3, 2] <- [<0> + 1*i1, <0> + 1*i0])} : f32[3, 2]\n%3 = mul(%0, %2) {} : f32[3, 2]\noutput %3 \"y\" []\n",
                      {{0, 2, 4, 1, 3, 5}}));
  Session session(weights, 0, {1});
  DeviceMemory memory(Device::open(0), 64);
  const std::vector<float> rows{5, 4, 3, 2, 1, 0}, columns{5, 3, 1, 4, 2, 0, 0, 6, 8, 10, 7, 9, 11};
  memory.copy_from(columns.data(), columns.size() * 4, nullptr);
  const void* on_device = reinterpret_cast<const void*>(memory.address());
  const int64_t transposed[] = {1, 3};
  Tensor ones{std::vector<float>(6, 1), {3, 2}}, y{std::vector<float>(6), {3, 2}};
  auto expect = [&](const std::vector<float>& expected) {
    HostTensor in = ones.host(), out = y.host();
    session.run({&in, 1}, {&out, 1});
    EXPECT_EQ(y.data, expected);
  };
  expect({0, 1, 2, 3, 4, 5});
  weights->set("w", rows.data(), 24, false);
  weights->commit(1);
  expect(rows);
  weights->set("w", on_device, 24, false, transposed);
  weights->commit(1);
  EXPECT_EQ(weights->current()->memory.weights[0], on_device);
  expect(rows);
  EXPECT_THROW(weights->set("w", on_device, 24, false), Error);
  // Kernels take weights to be aligned: another address is copied from.
  const auto* unaligned = static_cast<const float*>(on_device) + 7;
  weights->set("w", unaligned, 24, false, transposed);
  weights->commit(1);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(weights->current()->memory.weights[0]) % 16, 0u);
  expect({6, 7, 8, 9, 10, 11});
}

TEST(Gpu, AnIndexOutOfRangeIsToldAndTheSessionGoesOn) {
  SKIP_WITHOUT_ALL;
  Session session(on_gpu(compiled("%0 = input() {name=\"ids\"} : i64[B]\n%1 = weight() {name=\"table\"} : f32[3, 2]\n"
                                  "%2 = gather(%1, %0) {axes=[0], position=0, wrap=true} : f32[B, 2]\noutput %2 \"y\" []\n",
                                  {{0, 1, 2, 3, 4, 5}})),
                  0, {1});
  std::vector<int64_t> ids{2, 3}, dims{2};
  Tensor y{std::vector<float>(4), {2, 2}};
  HostTensor in{ids.data(), ir::DType::i64, 1, dims.data(), nullptr}, out = y.host();
  for (int again = 0; again < 4; ++again) {
    ids[1] = 3;
    try {
      session.run({&in, 1}, {&out, 1});
      FAIL() << "ran";
    } catch (const Error& e) {
      EXPECT_EQ(e.code, Code::invalid_input);
      EXPECT_EQ(e.message, "index 3 is out of range for an axis of size 3");
    }
    ids[1] = -1;
    session.run({&in, 1}, {&out, 1});
    EXPECT_EQ(y.data, (std::vector<float>{4, 5, 4, 5}));
  }
}

TEST(Gpu, OtherWeightsFromEitherSide) {
  SKIP_WITHOUT_ALL;
  DevicePtr device = Device::open(0);
  auto weights = on_gpu(product());
  Session session(weights, 0, {1});
  Tensor x{{1, 10}, {1, 2}}, y{std::vector<float>(2), {1, 2}};
  HostTensor in = x.host(), out = y.host();
  session.run({&in, 1}, {&out, 1});
  EXPECT_NEAR(y.data[0], 31, 1e-4f);
  const float other[] = {0, 0, 1, 2};
  weights->set("w", other, sizeof other, true);
  weights->commit(1);
  session.run({&in, 1}, {&out, 1});
  EXPECT_NEAR(y.data[0], 10, 1e-4f);
  DeviceMemory there(device, sizeof other);
  const float third[] = {1, 0, 0, 1};
  there.copy_from(third, sizeof third);
  device->synchronize();
  weights->set("w", reinterpret_cast<const void*>(there.address()), sizeof third, false);
  weights->commit(1);
  session.run({&in, 1}, {&out, 1});
  EXPECT_NEAR(y.data[1], 10, 1e-4f);
}

// A buffer that the model writes: adds x.
std::shared_ptr<const plan::Plan> counting() {
  ir::Graph g = ir::parse("ingot-graph 1\n%0 = input() {name=\"x\"} : f32[2]\n%1 = weight() {name=\"total\"} : f32[2]\n%2 = add(%1, %0) {} : f32[2]\noutput %2 \"y\" []\n");
  keep_values(g.weights[0], {1, 2});
  g.weights[0].mutated = true;
  g.outputs.push_back({g.outputs[0].value, "total", {}, ir::Output::To::weight});
  compile::Options options;
  options.set("target", "cuda:sm_90");
  return std::make_shared<plan::Plan>(compile::compile(g, options));
}

// Two sessions with their own streams and with tensors on the GPU, so that only the state orders their work.
TEST(Gpu, AStateGoesFromStreamToStream) {
  SKIP_WITHOUT_ALL;
  DevicePtr device = Device::open(0);
  CudaStream first(device), second(device);
  auto weights = on_gpu(counting());
  Session one(weights, 0, {1}), other(weights, 0, {1});
  Session* const sessions[] = {&one, &other};
  auto state = std::make_shared<State>(weights, system_allocator(), State::Of::shared);
  state->begin();
  DeviceMemory in(device, 8), out(device, 8);
  Tensor x{{1, 10}, {2}}, y{std::vector<float>(2), {2}};
  in.copy_from(x.data.data(), 8, nullptr);
  device->synchronize();
  HostTensor a = at(x, in), b = at(y, out);
  for (size_t k : {0, 1}) {
    sessions[k]->set_stream((k == 0 ? first : second).handle());
    sessions[k]->set_state(state);
  }
  for (size_t run = 0; run < 500; ++run) sessions[run % 2]->run({&a, 1}, {&b, 1});
  auto fork = state->fork();
  for (size_t run = 0; run < 500; ++run) sessions[run % 2]->run({&a, 1}, {&b, 1});
  float seen[2] = {};
  fork->copy(0, seen, sizeof seen, true);
  EXPECT_EQ(seen[1], 5002);
  state->copy(0, seen, sizeof seen, true);
  EXPECT_EQ(seen[0], 1001);
  state->reset();
  state->copy(0, seen, sizeof seen, true);
  EXPECT_EQ(seen[1], 2);
}

// y = cache += x, with the cache in the state.
TEST(Gpu, AStateOfItsOwnSizesGrowsThere) {
  SKIP_WITHOUT_ALL;
  ir::Graph g = ir::parse(
      "ingot-graph 1\nsymbol B 1 2 8\nsymbol L 1 4 64\n%0 = input() {name=\"x\"} : f32[B, L]\n%1 = input() {name=\"cache\"} : f32[B, L]\n"
      "%2 = add(%1, %0) {} : f32[B, L]\noutput %2 \"y\" []\n");
  g.outputs.push_back({g.outputs[0].value, "cache", {}, ir::Output::To::input});
  compile::Options options;
  options.set("target", "cuda:sm_90");
  auto weights = on_gpu(std::make_shared<plan::Plan>(compile::compile(g, options)));
  Session session(weights, 0, {1});
  auto state = std::make_shared<State>(weights, system_allocator(), State::Of::shared, State::Sizes{{"L", 2}});
  session.set_state(state);
  auto run = [&](int64_t b, int64_t l) {
    std::vector<float> x(static_cast<size_t>(b * l), 1), y(x.size());
    const int64_t dims[] = {b, l};
    const HostTensor in[] = {{x.data(), ir::DType::f32, 2, dims, nullptr}, {nullptr, ir::DType::f32, 2, dims, nullptr}}, out{y.data(), ir::DType::f32, 2, dims, nullptr};
    session.run(in, {&out, 1});
    return y;
  };
  for (float n = 1; n < 5; ++n) EXPECT_EQ(run(2, 2), std::vector<float>(4, n));
  state->grow({{"L", 3}, {"B", 3}});
  EXPECT_EQ(run(3, 3), (std::vector<float>{5, 5, 1, 5, 5, 1, 1, 1, 1}));
}

TEST(Gpu, StateStaysThere) {
  SKIP_WITHOUT_ALL;
  Session session(on_gpu(counting()), 0, {1});
  Tensor x{{10, 100}, {2}}, y{std::vector<float>(2), {2}};
  HostTensor in = x.host(), out = y.host();
  for (int run = 1; run <= 5; ++run) {
    session.run({&in, 1}, {&out, 1});
    EXPECT_EQ(y.data, (std::vector<float>{1.0f + 10.0f * static_cast<float>(run), 2.0f + 100.0f * static_cast<float>(run)}));
  }
  float seen[2] = {};
  session.copy_state(0, seen, sizeof seen, true);
  EXPECT_EQ(seen[0], 51);
  const float set[] = {7, 8};
  session.copy_state(0, const_cast<float*>(set), sizeof set, false);
  session.run({&in, 1}, {&out, 1});
  EXPECT_EQ(y.data[0], 17);
  session.reset();
  session.run({&in, 1}, {&out, 1});
  EXPECT_EQ(y.data[0], 11);
}

TEST(Gpu, SessionsOfManyThreads) {
  SKIP_WITHOUT_ALL;
  auto weights = on_gpu(product());
  std::vector<std::thread> threads;
  for (int n = 0; n < 16; ++n) {
    threads.emplace_back([&, n] {
      DevicePtr device = Device::open(0);
      CudaStream stream(device);
      Session session(weights, 0, {1});
      session.set_stream(stream.handle());
      for (int run = 0; run < 50; ++run) {
        auto rows = static_cast<size_t>(1 + (n + run) % 5);
        Tensor x{std::vector<float>(2 * rows), {static_cast<int64_t>(rows), 2}}, y{std::vector<float>(2 * rows), {static_cast<int64_t>(rows), 2}};
        for (size_t i = 0; i < x.data.size(); ++i) x.data[i] = static_cast<float>((n + run + static_cast<int>(i)) % 7);
        HostTensor in = x.host(), out = y.host();
        session.run({&in, 1}, {&out, 1});
        expect_product(y.data, x.data, rows);
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST(Gpu, StepsAreTimed) {
  SKIP_WITHOUT_ALL;
  Session session(on_gpu(product()), 0, {1});
  Tensor x{{1, 2}, {1, 2}}, y{std::vector<float>(2), {1, 2}};
  HostTensor in = x.host(), out = y.host();
  session.set_profiling(true);
  session.run({&in, 1}, {&out, 1});
  std::string text = session.profile();
  for (const char* step : {"\"kernel\": \"matmul\", \"origin\": \"\", \"nanoseconds\": ", "\"kernel\": \"fused\", \"origin\": \"\", \"nanoseconds\": "}) {
    EXPECT_NE(text.find(step), std::string::npos) << text;
  }
}

// Half of the weights are streamed from the host: results have the same bits as without streaming, in two threads, recorded and not, before and after a commit.
TEST(Gpu, StreamedWeightsGiveTheSameBits) {
  SKIP_WITHOUT_ALL;
  constexpr size_t side = 128, count = 16;
  std::string text = fmt::format("%0 = input() {{name=\"x\"}} : f32[B, {}]\n", side);
  std::vector<std::vector<float>> values;
  size_t last = 0;
  for (size_t i = 0; i < count; ++i, last += 2) {
    text += fmt::format("%{} = weight() {{name=\"w{}\"}} : f32[{}, {}]\n%{} = matmul(%{}, %{}) {{}} : f32[B, {}]\n", last + 1, i, side, side, last + 2, last, last + 1, side);
    std::vector<float>& w = values.emplace_back(side * side);
    for (size_t k = 0; k < w.size(); ++k) w[k] = static_cast<float>((k * 37 + i * 11) % 64) / 512.0f;
  }
  const auto plan = compiled(text + fmt::format("output %{} \"y\" []\n", last), values);
  auto all = on_gpu(plan);
  const Weights::Usage usage = all->usage();
  auto some = std::make_shared<Weights>(plan, 1, system_allocator(), "cuda", static_cast<int64_t>(usage.least + usage.resident / 2));
  EXPECT_GT(some->usage().streamed, 0u);
  auto run = [&](Session& session, float first) {
    Tensor x{std::vector<float>(4 * side, first), {4, side}}, y{std::vector<float>(4 * side), {4, side}};
    HostTensor in = x.host(), out = y.host();
    session.run({&in, 1}, {&out, 1});
    return y.data;
  };
  auto compare = [&] {
    Session plain(all, 0, {1}), streamed(some, 0, {1}), unrecorded(some, 0, {1});
    unrecorded.set_recording(false);
    for (int k = 0; k < 20; ++k) {
      const auto first = static_cast<float>(k);
      const std::vector<float> wanted = run(plain, first);
      EXPECT_EQ(run(streamed, first), wanted) << k;
      EXPECT_EQ(run(unrecorded, first), wanted) << k;
    }
  };
  std::thread other(compare);
  compare();
  other.join();
  for (const auto& w : {all, some}) {
    w->set("w3", values[5].data(), values[5].size() * 4, true);
    w->commit(1);
  }
  compare();
  some->set_limit(static_cast<int64_t>(usage.least));
  compare();
  some->set_limit(0);
  EXPECT_EQ(some->usage().streamed, 0u);
  compare();
}

}  // namespace
}  // namespace ingot::runtime
