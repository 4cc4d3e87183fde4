#include "base/machine.h"

#include <gtest/gtest.h>

namespace ingot {
namespace {

TEST(Machine, EachTargetHasTheNewestRowThatIsNotNewer) {
#if defined(__x86_64__)
  EXPECT_EQ(machine_for(Target()), machine_named("cpu:avx512"));
#else
  EXPECT_EQ(machine_for(Target()), machine_named("cpu:portable"));
#endif
  EXPECT_EQ(machine_for(cuda_target(80)), machine_named("cuda:sm_80"));
  EXPECT_EQ(machine_for(cuda_target(89)), machine_named("cuda:sm_80"));
  EXPECT_EQ(machine_for(cuda_target(90)), machine_named("cuda:sm_90"));
  EXPECT_EQ(machine_for(cuda_target(103)), machine_named("cuda:sm_100"));
  EXPECT_EQ(machine_for(cuda_target(60)), machine_named("cuda:sm_70"));
}

TEST(Machine, TextGivesTheSameNumbers) {
  for (const KnownMachine& k : known_machines()) {
    if (!k.name.starts_with("cpu")) continue;  // a GPU is not measured
    Machine m = k.machine;
    m.f32 = 1.0 / 3 + 50;
    EXPECT_EQ(parse_machine(text_of(m)), m) << text_of(m);
  }
}

TEST(Machine, DamagedTextsAreRefused) {
  const std::string good = text_of(machine_named("cpu:avx2"));
  ASSERT_TRUE(parse_machine(good));
  EXPECT_FALSE(parse_machine(""));
  EXPECT_FALSE(parse_machine(good + " more=1"));
  EXPECT_FALSE(parse_machine(good.substr(0, good.rfind(' '))));
  for (const char* bad : {"f32=0", "f32=-1", "f32=nan", "f32=inf", "f32=", "f32=1x", "f33=59"}) {
    std::string text = good;
    text.replace(text.find("f32=59"), 6, bad);
    EXPECT_FALSE(parse_machine(text)) << text;
  }
}

}  // namespace
}  // namespace ingot
