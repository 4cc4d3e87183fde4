// What was timed once and is known from then on: which of the ways to do something is the fastest on one machine. Plans hold such entries, and so does a
// file that builds share.
#pragma once
#include <compare>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

struct Timing {
  std::string machine;  // and the library on it whose ways these are: "NVIDIA H200, cuBLASLt 130200"
  std::string problem;  // all that the times depend on
  std::string choice;   // "cublaslt 3"; whoever does the problem knows what it means, or does as if there was no entry
  auto operator<=>(const Timing&) const = default;
};

// Text of one line, not empty and not long: what an entry may hold.
bool is_timing_text(std::string_view);
// Puts `more` in: sorted, of one problem on one machine the later one.
void add(std::vector<Timing>& to, std::span<const Timing> more);

// A file of them: empty where there is none, or where another user could have written it (`refused` says so). Error (format) when it is another
// file, or damaged.
std::vector<Timing> read_timings(const std::string& path, std::string* refused = nullptr);
// Adds them to what the file holds by now, atomically: of processes that add at the same time each one's are there. Error (io) when it cannot be
// written, or another user could have written what is there.
void add_to_file(const std::string& path, std::span<const Timing> more);

}  // namespace ingot
