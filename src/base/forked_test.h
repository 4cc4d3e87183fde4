// Child processes of a test.
#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

namespace ingot {

// Runs work(0), work(1), ... each in a process of its own, all at the same time. An exception there is a failure here.
template <class F>
void in_processes(unsigned count, F work) {
  std::vector<pid_t> children;
  for (unsigned n = 0; n < count; ++n) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        work(n);
      } catch (...) {
        ::_exit(1);
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

}  // namespace ingot
