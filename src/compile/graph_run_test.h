// Compiles a graph, runs the plan, and compares with the reference interpreter.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "compile/compile.h"
#include "ir/graph_cases_test.h"
#include "runtime/session.h"

namespace ingot::compile {

using ir::add_weights;
using ir::random_array;

// The error allowed for sums in another order and for other forms of the same function: a hundred roundings of the largest value. `tf32`: GEMMs of f32 round
// their operands to 10 bits.
inline void expect_close(const ir::Array& found, const ir::Array& wanted, bool tf32 = false) {
  ASSERT_EQ(found.dims, wanted.dims);
  if (wanted.dtype == ir::DType::f16) {
    std::vector<double> x, y;
    double largest = 1;
    for (size_t i = 0; i < wanted.bytes.size(); i += 2) {
      uint16_t bits[2];
      std::memcpy(&bits[0], found.bytes.data() + i, 2);
      std::memcpy(&bits[1], wanted.bytes.data() + i, 2);
      x.push_back(ir::f16_to_float(bits[0]));
      y.push_back(ir::f16_to_float(bits[1]));
      largest = std::max(largest, std::abs(y.back()));
    }
    // The interpreter rounds after every operation.
    for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 16 * largest * 4.9e-4) << "element " << i;
    return;
  }
  if (wanted.dtype != ir::DType::f32) {
    EXPECT_EQ(found.bytes, wanted.bytes);
    return;
  }
  std::vector<float> x(static_cast<size_t>(found.numel())), y(x.size());
  if (x.empty()) return;
  std::memcpy(x.data(), found.bytes.data(), found.bytes.size());
  std::memcpy(y.data(), wanted.bytes.data(), wanted.bytes.size());
  float largest = 1;
  for (float v : y) largest = std::max(largest, std::abs(v));
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], tf32 ? 16 * largest * 4.9e-4 : 100 * largest * 6e-8f) << "element " << i;
}

inline void run_and_compare(const ir::Graph& g, std::shared_ptr<const plan::Plan> plan, std::mt19937& random, std::string_view device = "auto", bool tf32 = false) {
  runtime::Session session(std::make_shared<runtime::Weights>(plan, 1, system_allocator(), device), 0, {1});
  for (bool usual : {true, false}) {
    std::vector<int64_t> sizes;
    for (const ir::Symbol& s : g.symbols) sizes.push_back(usual ? s.opt : s.min);
    std::vector<ir::Array> inputs;
    for (const ir::Input& i : g.inputs) inputs.push_back(random_array({g.type(i.value).dtype, g.given_dims(i)}, sizes, random));
    std::vector<ir::Array> wanted = ir::interpret(g, inputs), found;
    auto host = [](ir::Array& a) { return runtime::HostTensor{a.bytes.data(), a.dtype, static_cast<int>(a.dims.size()), a.dims.data(), nullptr}; };
    std::vector<runtime::HostTensor> in, out;
    for (ir::Array& a : inputs) in.push_back(host(a));
    for (const ir::Array& a : wanted) found.push_back(ir::Array::empty(a.dtype, a.dims));
    for (ir::Array& a : found) out.push_back(host(a));
    // On a GPU the third run records a CUDA graph.
    for (int again = 0; again < (device == "cuda" ? 4 : 1); ++again) {
      for (ir::Array& a : found) std::fill(a.bytes.begin(), a.bytes.end(), std::byte{0});
      session.run(in, out);
      for (size_t i = 0; i < found.size(); ++i) expect_close(found[i], wanted[i], tf32);
    }
  }
}

}  // namespace ingot::compile
