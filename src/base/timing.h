// The result of a timing: the fastest of several choices for one problem on one machine. Plans hold such entries, and so does the timing cache, a file that
// builds share.
#pragma once
#include <compare>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

struct Timing {
  std::string machine;  // with the library that has the choices: "NVIDIA H200, cuBLASLt 130200"
  std::string problem;  // everything on which the times depend
  std::string choice;   // "cublaslt 3"; a kernel that does not know the choice ignores the entry
  auto operator<=>(const Timing&) const = default;
};

// True for a text that an entry may hold: one line, not empty, not long.
bool is_timing_text(std::string_view);
// Adds `more` and sorts. A later entry replaces an earlier one for the same problem on the same machine.
void add(std::vector<Timing>& to, std::span<const Timing> more);

// Reads a timing cache. Empty if there is no such file, or if another user could have written it (then `refused` says so). Error (format) if it is another kind
// of file, or damaged.
std::vector<Timing> read_timings(const std::string& path, std::string* refused = nullptr);
// Adds entries to the file, atomically: if several processes add at the same time, no entry is lost. Error (io) if the file cannot be written, or if another user
// could have written it.
void add_to_file(const std::string& path, std::span<const Timing> more);

}  // namespace ingot
