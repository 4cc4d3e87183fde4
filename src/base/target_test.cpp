#include "base/target.h"

#include <gtest/gtest.h>

namespace ingot {
namespace {

TEST(Target, HasOneText) {
  EXPECT_EQ(Target().text(), "cpu");
  EXPECT_EQ(cuda_target(90).text(), "cuda:sm_90");
  for (const char* text : {"cpu", "cuda:sm_75", "cuda:sm_90", "cuda:sm_120"}) {
    auto target = parse_target(text);
    ASSERT_TRUE(target) << text;
    EXPECT_EQ(target->text(), text);
  }
  for (const char* text : {"", "CPU", "cpu ", "cuda", "cuda:0", "cuda:sm_", "cuda:sm_9", "cuda:sm_090", "cuda:sm_9000", "cuda:sm_9a", "cuda:sm_-9", "rocm"})
    EXPECT_FALSE(parse_target(text)) << text;
}

}  // namespace
}  // namespace ingot
