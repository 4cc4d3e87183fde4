// The share of a machine that the control groups of a process allow.
#pragma once
#include <filesystem>

namespace ingot {

// Processors, as a fraction (1.5), that the smallest quota of this process allows, of version 1 or 2; 0: no quota.
// groups: /proc/self/cgroup; mounted: /sys/fs/cgroup.
double cpu_quota(const std::filesystem::path& groups, const std::filesystem::path& mounted);

}  // namespace ingot
