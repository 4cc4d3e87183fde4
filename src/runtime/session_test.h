// Shared parts of the tests of sessions, states and weights.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/error.h"
#include "compile/compile.h"
#include "runtime/session.h"

namespace ingot::runtime {

// Counts allocations; fails on request.
class Counting final : public Allocator {
 public:
  int count = 0;
  bool fails = false;
  void* allocate(size_t bytes) override {
    if (fails) throw std::bad_alloc();
    ++count;
    return system_allocator().allocate(bytes);
  }
  void release(void* memory, size_t bytes) noexcept override { system_allocator().release(memory, bytes); }
};

// The Error (invalid_input) that fn throws.
inline Error refused(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::invalid_input);
    return e;
  }
  return {Code::internal, "no error"};
}

// Gives the weight its own copy of the values.
inline void keep_values(ir::Weight& w, std::vector<float> values) {
  auto kept = std::make_shared<std::vector<float>>(std::move(values));
  w.data = reinterpret_cast<const std::byte*>(kept->data());
  w.bytes = kept->size() * sizeof(float);
  w.keep = kept;
}

// Compiles a graph's text, in which B is 1 to 64 and usually 4.
inline std::shared_ptr<const plan::Plan> compile(const std::string& text, const std::vector<std::vector<float>>& weights, const compile::Options& options = {}) {
  ir::Graph g = ir::parse("ingot-graph 1\nsymbol B 1 4 64\n" + text);
  for (size_t i = 0; i < g.weights.size(); ++i) keep_values(g.weights[i], weights[i]);
  return std::make_shared<plan::Plan>(compile::compile(g, options));
}

struct Tensor {
  std::vector<float> data;
  std::vector<int64_t> dims, strides = {};
  HostTensor host() { return {data.data(), ir::DType::f32, static_cast<int>(dims.size()), dims.data(), strides.empty() ? nullptr : strides.data()}; }
};

}  // namespace ingot::runtime
