#include "capture/safetensors.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "capture/adapter.h"

namespace ingot::capture {
namespace {

std::string file_of(const std::string& header, size_t values) {
  std::string path = testing::TempDir() + "ingot_safetensors_test";
  const uint64_t length = header.size();
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&length), sizeof length);
  out << header << std::string(values, 'x');
  return path;
}

TEST(Safetensors, tensors_lie_where_the_header_says) {
  const TensorFile file = read_safetensors(file_of(R"({"__metadata__":{"lora_adapter_metadata":"{}"},"b":{"dtype":"BF16","shape":[2,1],"data_offsets":[3,7]},)"
                                                   R"("a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"none":{"dtype":"F32","shape":[0,4],"data_offsets":[7,7]}})",
                                                   7));
  ASSERT_EQ(file.tensors.size(), 3u);
  EXPECT_EQ(file.tensors[0].name, "b");
  EXPECT_EQ(file.tensors[0].dtype, ir::DType::bf16);
  EXPECT_EQ(file.tensors[0].bytes.data(), file.tensors[1].bytes.data() + 3);
  EXPECT_EQ(file.tensors[2].bytes.size(), 0u);
  EXPECT_EQ(file.adapter_metadata, "{}");
}

TEST(Safetensors, sizes_and_offsets_are_checked) {
  const std::string begin = R"({"a":{"dtype":"F32","shape":)", with = R"(,"data_offsets":)";
  for (const auto& [shape, offsets] : std::vector<std::pair<std::string, std::string>>{{"[2]", "[0,9]"},
                                                                                       {"[2]", "[0,7]"},
                                                                                       {"[2]", "[8,0]"},
                                                                                       {"[2]", "[8,16]"},
                                                                                       {"[-2]", "[0,8]"},
                                                                                       {"[4611686018427387906]", "[0,8]"},
                                                                                       {"[2]", "[0]"},
                                                                                       {"[2]", "[0,8,8]"},
                                                                                       {"[2.0]", "[0,8]"},
                                                                                       {"2", "[0,8]"},
                                                                                       {"[2]", "[-8,0]"},
                                                                                       {"[9223372036854775807,0]", "[0,8]"}}) {
    EXPECT_THROW(read_safetensors(file_of(begin + shape + with + offsets + "}}", 8)), Error) << shape << offsets;
  }
  EXPECT_NO_THROW(read_safetensors(file_of(begin + "[2]" + with + "[0,8]}}", 8)));
}

TEST(Adapters, names_of_modules) {
  const std::vector<std::string> weights = {"model.layers.0.q.weight", "model.layers.10.q.weight", "blocks.0.to_out.0.weight", "model.layers.0.q.bias"};
  auto part = [&](std::string down, std::string up) {
    const std::string names[] = {up, down};
    const std::vector<AdapterPart> found = adapter_parts(names, R"({"lora_alpha": 2})", weights);
    EXPECT_EQ(found.at(0).down, 1u);
    return found.at(0).weight;
  };
  EXPECT_EQ(part("base_model.model.model.layers.0.q.lora_A.weight", "base_model.model.model.layers.0.q.lora_B.weight"), weights[0]);
  EXPECT_EQ(part("base_model.model.layers.10.q.lora_A.weight", "base_model.model.layers.10.q.lora_B.weight"), weights[1]);  // the model is a part of the one compiled
  EXPECT_EQ(part("unet.blocks.0.processor.to_out_lora.down.weight", "unet.blocks.0.processor.to_out_lora.up.weight"), weights[2]);
  EXPECT_EQ(part("lora_te_layers_10_q.lora_down.weight", "lora_te_layers_10_q.lora_up.weight"), weights[1]);
  EXPECT_THROW(part("base_model.model.q.lora_A.weight", "base_model.model.q.lora_B.weight"), Error);  // two end so
  EXPECT_THROW(part(".lora_A.weight", ".lora_B.weight"), Error);
  EXPECT_THROW(part("lora_A.weight", "lora_B.weight"), Error);
}

}  // namespace
}  // namespace ingot::capture
