#include "base/key_difference.h"

#include <gtest/gtest.h>

#include <exception>

#include "base/build_id.h"

namespace ingot {
namespace {

using Lines = std::vector<std::string>;

const std::string key =
    "library: ingot 0.1.0, build aa\n"
    "option weights: embed\n"
    "signature: {}\n"
    "graph:\n"
    "origin \"a.py\" 1 \"0\" \"aten.linear.default\" \"linear\" \"x\"\n"
    "symbol s0 1 8 64\n"
    "%0 = weight() {name=\"w\"} : f32[4, 4]\n"
    "%1 = input() {name=\"x\"} : f32[s0, 4]\n"
    "%2 = call(%1, %0) {input=&0, target=\"aten.linear.default\", weight=&1} : f32[s0, 4] @0\n"
    "%3 = call(%2) {self=&0, dims=[1, 2], eps=1e-05, target=\"aten.norm.default\"} : f32[s0, 4] @0\n"
    "output %3 \"y\" []\n";

std::string with(const std::string& from, const std::string& to) {
  std::string other = key;
  const size_t at = other.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return other.replace(at, from.size(), to);
}

TEST(KeyDifference, in_words) {
  auto said = [](const std::string& from, const std::string& to) { return explain_difference(key, with(from, to)); };
  EXPECT_EQ(said("build aa", "build bb"), (Lines{"the library: ingot 0.1.0, build aa there, ingot 0.1.0, build bb here"}));
  EXPECT_EQ(said("weights: embed", "weights: strip"), (Lines{"option weights: embed there, strip here"}));
  EXPECT_EQ(said("weights: embed", "weights: "), (Lines{"option weights: embed there, nothing here"}));
  EXPECT_EQ(said("option weights: embed\n", ""), (Lines{"option weights: only there, embed"}));
  EXPECT_EQ(said("signature: {}", "signature: {\"a\": 1}"), (Lines{"the structure of inputs and results"}));
  EXPECT_EQ(said("s0 1 8 64", "s0 1 8 128"), (Lines{"size s0: least, usual and largest 1 8 64 there, least, usual and largest 1 8 128 here"}));
  EXPECT_EQ(said("{name=\"w\"} : f32[4, 4]", "{name=\"w\"} : f16[4, 4]"), (Lines{"weight w: f32[4, 4] there, f16[4, 4] here"}));
  EXPECT_EQ(said("{name=\"w\"}", "{name=\"v\"}"), (Lines{"weight w: only there, f32[4, 4]", "weight v: only here, f32[4, 4]"}));
  EXPECT_EQ(said("{name=\"x\"} : f32[s0, 4]", "{name=\"x\"} : f32[5, 4]"), (Lines{"input x: f32[s0, 4] there, f32[5, 4] here"}));
  EXPECT_EQ(said("eps=1e-05", "eps=1e-06"), (Lines{"operator aten.norm.default: eps=1e-05 there, eps=1e-06 here"}));
  EXPECT_EQ(said("dims=[1, 2]", "dims=[1]"), (Lines{"operator aten.norm.default: dims=[1, 2] there, dims=[1] here"}));
  EXPECT_EQ(said("aten.norm.default\"}", "aten.rms.default\"}"), (Lines{"operator aten.norm.default: 1 more there", "operator aten.rms.default: 1 more here"}));
  EXPECT_EQ(said("weight=&1} : f32[s0, 4]", "weight=&1} : f32[s0, 8]"), (Lines{"sizes and types of 1 operators, which follow"}));
  EXPECT_EQ(said("a.py\" 1", "a.py\" 2"), (Lines{"the lines of code that operators come from"}));
}

TEST(KeyDifference, numbers_of_values_are_no_difference) {
  const std::string other = with("output %3", "%4 = call(%3) {self=&0, target=\"aten.relu.default\"} : f32[s0, 4] @1\noutput %4");
  EXPECT_EQ(explain_difference(key, other), (Lines{"operator aten.relu.default: 1 more here"}));
  EXPECT_EQ(explain_difference(other, key), (Lines{"operator aten.relu.default: 1 more there"}));
  EXPECT_EQ(differing_lines(key, other), (Lines{"+ %4 = call(%3) {self=&0, target=\"aten.relu.default\"} : f32[s0, 4] @1"}));
}

TEST(KeyDifference, where_they_are_all_that_differs) {
  const std::string other = with("call(%2)", "call(%1)");
  ASSERT_EQ(differing_lines(key, other).size(), 2u);
  EXPECT_EQ(explain_difference(key, other).size(), 2u);
  EXPECT_TRUE(explain_difference(key, key).empty());
}

TEST(KeyDifference, any_text_is_taken) {
  for (std::string text : {"", "\n", "%", "%1 = call(", "option ", "symbol ", "library: ", "output %", "operator", "%1 = weight() : ", "a\nb", "%1 = call() {target=\"x"}) {
    explain_difference(key, text), explain_difference(text, key), explain_difference(text, text + "x");
  }
}

TEST(BuildId, of_this_program) {
  const std::string id = build_id_of(reinterpret_cast<const void*>(&build_id_of));
  EXPECT_EQ(id.size(), 40u);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(build_id_of(reinterpret_cast<const void*>(&std::terminate)), id);  // the C++ library's: sanitizers replace the C library's
  int here = 0;
  EXPECT_EQ(build_id_of(&here), "");
}

}  // namespace
}  // namespace ingot
