#include "backend/cpu/run/isa.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace ingot::backend::cpu {
namespace {

// With INGOT_ISA naming what this machine lacks, or its best, all tests would do what they do without it.
class Lesser : public testing::Environment {
  void SetUp() override {
    const char* named = std::getenv("INGOT_ISA");
    if (named != nullptr && (name_of(isa()) != std::string(named) || isa() == best_isa())) GTEST_SKIP() << named << " is not a lesser instruction set of this machine";
  }
};
[[maybe_unused]] testing::Environment* const lesser = testing::AddGlobalTestEnvironment(new Lesser());

TEST(isa, is_at_most_the_best) { EXPECT_LE(isa(), best_isa()); }

}  // namespace
}  // namespace ingot::backend::cpu
