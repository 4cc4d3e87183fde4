#include <sched.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "base/cpu_quota.h"
#include "base/parallel.h"

namespace ingot {

namespace {

constexpr double no_quota = 0;

double smaller(double a, double b) { return a == no_quota || (b != no_quota && b < a) ? b : a; }

// Version 2: "quota period", or "max period".
double quota_of_v2(const std::filesystem::path& group) {
  std::ifstream file(group / "cpu.max");
  std::string quota;
  double period = 0;
  return file >> quota >> period && quota != "max" && period > 0 ? std::atof(quota.c_str()) / period : no_quota;
}

// Version 1: -1 is none.
double quota_of_v1(const std::filesystem::path& group) {
  double quota = 0, period = 0;
  return std::ifstream(group / "cpu.cfs_quota_us") >> quota && std::ifstream(group / "cpu.cfs_period_us") >> period && quota > 0 && period > 0 ? quota / period : no_quota;
}

// The smallest quota of a group and those that it is in. A container may see its groups at the root, under another name than the kernel gives: folders that are not there have none.
double smallest(const std::filesystem::path& root, const std::string& group, double (*quota)(const std::filesystem::path&)) {
  double found = quota(root);
  std::filesystem::path folder = root;
  for (const std::filesystem::path& name : std::filesystem::path(group).relative_path()) found = smaller(found, quota(folder /= name));
  return found;
}

}  // namespace

double cpu_quota(const std::filesystem::path& groups, const std::filesystem::path& mounted) {
  double found = no_quota;
  std::ifstream file(groups);
  for (std::string line; std::getline(file, line);) {  // "0::/user.slice" of version 2, "3:cpu,cpuacct:/docker/1f" of version 1
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (controllers.empty()) found = smaller(found, smallest(mounted, group, quota_of_v2));
    std::istringstream names(controllers);
    for (std::string name; std::getline(names, name, ',');) {
      if (name != "cpu") continue;
      for (const std::string& folder : {std::string("cpu"), controllers}) found = smaller(found, smallest(mounted / folder, group, quota_of_v1));
    }
  }
  return found;
}

int usable_threads() {
  cpu_set_t set;
  int threads = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : static_cast<int>(std::thread::hardware_concurrency());
  const double quota = cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup");
  if (quota > 0) threads = std::min(threads, static_cast<int>(std::lround(quota)));
  return std::max(1, threads);
}

}  // namespace ingot
