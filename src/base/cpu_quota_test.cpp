#include "base/cpu_quota.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace ingot {
namespace {

class CpuQuota : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text << "\n";
  }
  double quota(const std::string& groups) {
    write("groups", groups);
    return cpu_quota(folder_ / "groups", folder_ / "mounted");
  }

 private:
  std::filesystem::path folder_ = std::filesystem::temp_directory_path() / ("ingot_cpu_quota_" + std::to_string(::getpid()));
};

TEST_F(CpuQuota, NoGroupHasNone) {
  EXPECT_EQ(quota("0::/"), 0);
  EXPECT_EQ(quota(""), 0);
  EXPECT_EQ(quota("no colon\n1:2\n"), 0);
  write("mounted/cpu.max", "max 100000");
  EXPECT_EQ(quota("0::/"), 0);
  write("mounted/cpu/cpu.cfs_quota_us", "-1");
  write("mounted/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(quota("1:cpu:/"), 0);
}

TEST_F(CpuQuota, OfVersion2TheSmallestOfTheGroupsAround) {
  write("mounted/a/cpu.max", "300000 100000");
  write("mounted/a/b/cpu.max", "max 100000");
  write("mounted/a/b/c/cpu.max", "50000 100000");
  EXPECT_EQ(quota("0::/a"), 3);
  EXPECT_EQ(quota("0::/a/b"), 3);
  EXPECT_EQ(quota("0::/a/b/c"), 0.5);
  EXPECT_EQ(quota("0::/elsewhere/than/it/is/mounted"), 0);
}

TEST_F(CpuQuota, OfVersion1ByTheFoldersOfItsControllers) {
  write("mounted/cpu/docker/cpu.cfs_quota_us", "150000");
  write("mounted/cpu/docker/cpu.cfs_period_us", "100000");
  EXPECT_EQ(quota("4:memory:/docker\n1:cpu:/docker/1f\n0::/"), 1.5);
  EXPECT_EQ(quota("4:cpuset:/docker"), 0);
  write("mounted/cpu,cpuacct/cpu.cfs_quota_us", "200000");
  write("mounted/cpu,cpuacct/cpu.cfs_period_us", "100000");
  EXPECT_EQ(quota("3:cpu,cpuacct:/x"), 2);
  EXPECT_EQ(quota("3:cpu,cpuacct:/docker/1f"), 1.5);
}

TEST_F(CpuQuota, DamagedFilesSayNothing) {
  write("mounted/cpu.max", "half of it");
  write("mounted/cpu/cpu.cfs_quota_us", "");
  EXPECT_EQ(quota("0::/\n1:cpu:/"), 0);
}

}  // namespace
}  // namespace ingot
