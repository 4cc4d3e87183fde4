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

#if defined(__x86_64__) && defined(__GLIBC__)
TEST(isa, is_what_the_compiler_finds) {
  __builtin_cpu_init();
  EXPECT_EQ(best_isa() >= Isa::avx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"));
  EXPECT_EQ(best_isa() >= Isa::avx512,
            __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"));
  EXPECT_EQ(best_isa() >= Isa::avx512_bf16, best_isa() >= Isa::avx512 && __builtin_cpu_supports("avx512bf16"));
}
#endif

}  // namespace
}  // namespace ingot::backend::cpu
