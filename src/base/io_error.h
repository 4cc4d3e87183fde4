// The error of a system call on a file.
#pragma once
#include <string>

namespace ingot {

// Error (io; out_of_memory for ENOMEM): "cannot <action> <path>: <the system's reason>", with what to do.
[[noreturn]] void fail_io(const char* action, const std::string& path, int error);

// Closes itself.
struct Descriptor {
  int fd = -1;
  explicit Descriptor(int of) : fd(of) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

}  // namespace ingot
