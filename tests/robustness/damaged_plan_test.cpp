// Every byte before the weights of a plan is changed: an error or an answer, never a crash. Once as it is, where checksums must notice, and
// once with the checksums made right again, where only the checks of each number are left. Sanitizers make this test strict.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "ingot/ingot.hpp"
#include "seal.h"

namespace {

// A description costs more than a run, so it is left out where nothing in it can have changed.
std::vector<float> run(std::span<const std::byte> file, bool describe) {
  ingot::Plan plan = ingot::Plan::from_memory(file);
  if (describe) plan.describe();
  const ingot::Options options = std::move(ingot::Options().set("threads", "1"));
  ingot::Weights weights(plan, options);
  ingot::Session session(plan, weights, 0, options);
  // Memory of exactly the size that the plan asks for, but not more than a test should.
  auto small = [](const std::vector<int64_t>& dims) {
    double n = 1;
    for (int64_t d : dims) n *= static_cast<double>(d);
    return n >= 0 && n < 1e6;
  };
  std::vector<ingot::Tensor> inputs;
  for (const ingot::Binding& b : plan.inputs()) {
    if (!small(b.dims)) return {};
    inputs.push_back(ingot::Tensor::zeros(b.dtype, b.dims));
    std::memset(inputs.back().data(), 1, inputs.back().count() * ingot::size_of(b.dtype));
  }
  for (const std::vector<int64_t>& dims : session.resolve(inputs)) {
    if (!small(dims)) return {};
  }
  std::vector<ingot::Tensor> outputs = session.run(inputs);
  if (outputs.size() != 1 || outputs[0].dtype() != INGOT_FLOAT32) return {};
  std::span<const float> values = outputs[0].values<const float>();
  return {values.begin(), values.end()};
}

class DamagedPlan : public testing::TestWithParam<const char*> {};

TEST_P(DamagedPlan, EveryByte) {
  std::string path = testing::TempDir() + "ingot_damaged_" + std::to_string(::getpid()) + ".ingot";
  ingot::compile(ingot::Model::open(GetParam())).save(path);
  std::ifstream stream(path, std::ios::binary);
  std::vector<char> text{std::istreambuf_iterator<char>(stream), {}};
  std::remove(path.c_str());
  std::vector<std::byte> file(text.size());
  std::memcpy(file.data(), text.data(), text.size());
  const std::vector<std::byte> good = file;
  const std::vector<float> expected = run(file, true);
  ASSERT_FALSE(expected.empty());
  ingot::plan::Header header;
  std::memcpy(&header, file.data(), sizeof header);
  const size_t end = sizeof header + header.metadata_bytes;

  const size_t stride = std::getenv("INGOT_TEST_ALL") != nullptr ? 1 : 7;  // odd: every byte of a number gets its turn
  size_t refused = 0, answered = 0;
  for (size_t at = 0; at < header.weights_offset(); at += stride) {
    for (unsigned char flip : {0xff, 0x01}) {
      SCOPED_TRACE("byte " + std::to_string(at) + " flipped by " + std::to_string(flip));
      file[at] ^= std::byte{flip};
      try {
        EXPECT_EQ(run(file, false), expected);
        EXPECT_GE(at, end) << "no checksum noticed";  // what lies between metadata and weights means nothing
      } catch (const ingot::Error& e) {
        EXPECT_TRUE(e.code() == INGOT_FORMAT || e.code() == INGOT_VERSION) << e.what();
      }
      if (at < end && ingot::plan::seal(file)) {
        try {
          run(file, at % 16 == 0);
          ++answered;
        } catch (const ingot::Error& e) {
          EXPECT_NE(e.code(), INGOT_INTERNAL) << e.what();
          ++refused;
        }
      }
      file = good;
    }
  }
  std::printf("%zu plans refused, %zu ran\n", refused, answered);
}

INSTANTIATE_TEST_SUITE_P(Models, DamagedPlan, testing::Values(INGOT_TEST_MODEL, INGOT_TEST_SELECTED));

}  // namespace
