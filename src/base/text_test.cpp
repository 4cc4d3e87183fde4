#include "base/text.h"

#include <gtest/gtest.h>

namespace ingot {
namespace {

TEST(Text, TheNearestNameIsTheOneMeant) {
  const std::string_view names[] = {"threads", "target", "fallback"};
  EXPECT_EQ(nearest("thread", names), "threads");
  EXPECT_EQ(nearest("tread", names), "threads");
  EXPECT_EQ(nearest("tagret", names), "target");
  EXPECT_EQ(nearest("fall_back", names), "fallback");
  EXPECT_EQ(nearest("zzzz", names), "");
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(Text, JsonEscapes) {
  std::string s = "a: ";
  append_json_string(s, std::string_view("q\"b\\n\nt\tz\0e\x1f \xc3\xa9", 15));
  EXPECT_EQ(s, "a: \"q\\\"b\\\\n\\nt\\u0009z\\u0000e\\u001f \xc3\xa9\"");
}

}  // namespace
}  // namespace ingot
