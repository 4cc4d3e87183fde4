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

TEST(Utf8, TheFirstBadByteIsFound) {
  using namespace std::string_view_literals;
  for (std::string_view good : {""sv, "abc"sv, "\x7f\n"sv, "\xc3\xa9"sv, "\xe2\x82\xac"sv, "\xed\x9f\xbf"sv, "\xf0\x9f\x98\x80"sv, "\xf4\x8f\xbf\xbf"sv})
    EXPECT_EQ(find_bad_utf8(good), std::nullopt) << good;
  const std::pair<std::string_view, size_t> bad[] = {{"a\0b"sv, 1},
                                                     {"\x80"sv, 0},
                                                     {"ab\xff"sv, 2},
                                                     {"\xc3"sv, 0},
                                                     {"\xc0\x80"sv, 0},
                                                     {"\xe0\x80\x80"sv, 0},
                                                     {"\xed\xa0\x80"sv, 0},
                                                     {"\xe2\x82"sv, 0},
                                                     {"\xf4\x90\x80\x80"sv, 0},
                                                     {"\xf5\x80\x80\x80"sv, 0},
                                                     {"x\xf0\x80\x80\x80"sv, 1},
                                                     {"\xe2\x28\xa1"sv, 0}};
  for (auto [text, at] : bad) EXPECT_EQ(find_bad_utf8(text), at) << text;
}

TEST(Utf8, ControlCharactersAreFound) {
  for (const char* good : {"", "layers.0.weight", "\xc3\xa9", "\xc2\xa0", "\xe2\x82\xac \xf0\x9f\x98\x80"}) EXPECT_FALSE(has_controls(good)) << good;
  for (const char* bad : {"a\n", "\x1b[2J", "\t", "\x7f", "a\xc2\x9b"}) EXPECT_TRUE(has_controls(bad)) << bad;
}

}  // namespace
}  // namespace ingot
