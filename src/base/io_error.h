// What all readers and writers of files do: the error of a system call, a descriptor that closes itself, reading to the end.
#pragma once
#include <cstddef>
#include <span>
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

// Fills `to` from an open file; how many bytes there were, fewer where the file ends before. Error as of fail_io.
size_t read_all(int fd, std::span<std::byte> to, const std::string& path);

}  // namespace ingot
