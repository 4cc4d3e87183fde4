#include "base/huge_pages.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace ingot {
namespace {

// Linux marks such memory with "hg" in its list of the process's memory.
bool asks_for_huge_pages(const void* memory) {
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) here = begin <= reinterpret_cast<uintptr_t>(memory) && reinterpret_cast<uintptr_t>(memory) < end;
    if (here && line.starts_with("VmFlags:")) return line.find(" hg") != std::string::npos;
  }
  return false;
}

TEST(huge_pages, large_memory_asks_for_them) {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled")) GTEST_SKIP() << "this kernel has no huge pages";
  constexpr size_t large = size_t{8} << 20;
  void* const memory = ::mmap(nullptr, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ask_for_huge_pages(memory, size_t{1} << 20);
  EXPECT_FALSE(asks_for_huge_pages(memory));
  ask_for_huge_pages(static_cast<char*>(memory) + 64, large - 128);  // as after an allocator's header
  EXPECT_TRUE(asks_for_huge_pages(memory));
  EXPECT_TRUE(asks_for_huge_pages(static_cast<char*>(memory) + large - 1));
  ::munmap(memory, large);
}

}  // namespace
}  // namespace ingot
