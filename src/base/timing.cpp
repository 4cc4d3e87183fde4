#include "base/timing.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/own_file.h"

namespace ingot {

namespace {

constexpr std::string_view first_line = "ingot timings 1";

bool same_problem(const Timing& a, const Timing& b) { return a.machine == b.machine && a.problem == b.problem; }

}  // namespace

bool is_timing_text(std::string_view text) {
  constexpr size_t longest = 1000;
  return !text.empty() && text.size() <= longest && std::none_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; });
}

void add(std::vector<Timing>& to, std::span<const Timing> more) {
  for (const Timing& t : more) {
    auto before = [](const Timing& x, const Timing& y) { return x.machine != y.machine ? x.machine < y.machine : x.problem < y.problem; };
    auto at = std::lower_bound(to.begin(), to.end(), t, before);
    if (at != to.end() && same_problem(*at, t)) {
      *at = t;
    } else {
      to.insert(at, t);
    }
  }
}

std::vector<Timing> read_timings(const std::string& path, std::string* refused) {
  const OwnFile file = read_own_file(path);
  if (refused != nullptr) *refused = file.refused;
  if (!file.bytes) return {};
  std::string_view text(reinterpret_cast<const char*>(file.bytes->data()), file.bytes->size());
  auto refuse = [&](const std::string& why) {
    throw Error(Code::format, fmt::format("{}: this is not a timing cache: {}", path, why)).fix("name another file in timing_cache, or delete this one: it is made anew");
  };
  auto next = [](std::string_view& rest, char end) {
    std::string_view one = rest.substr(0, rest.find(end));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    return one;
  };
  if (text.empty()) return {};
  if (next(text, '\n') != first_line) refuse("it does not start as one");
  std::vector<Timing> out;
  for (int number = 2; !text.empty(); ++number) {
    bool ends = text.find('\n') != std::string_view::npos;
    std::string_view line = next(text, '\n');
    std::array<std::string_view, 3> parts;
    for (std::string_view& p : parts) p = next(line, '\t');
    if (!ends || !line.empty() || !std::all_of(parts.begin(), parts.end(), is_timing_text)) refuse(fmt::format("line {} is damaged", number));
    const Timing t{std::string(parts[0]), std::string(parts[1]), std::string(parts[2])};
    add(out, {&t, 1});
  }
  return out;
}

void add_to_file(const std::string& path, std::span<const Timing> more) {
  FileLock lock(path);  // from reading to writing, so that no other process's entries are lost
  if (lock.state() == FileLock::State::busy) fail(Code::io, "{}: another process is writing it, and does not end", path);
  std::string refused;
  std::vector<Timing> all = read_timings(path, &refused);
  if (!refused.empty()) fail(Code::io, "nothing is added to a timing cache: {}", refused);
  add(all, more);
  std::string text = std::string(first_line) + "\n";
  for (const Timing& t : all) text += t.machine + "\t" + t.problem + "\t" + t.choice + "\n";
  const std::span<const std::byte> whole(reinterpret_cast<const std::byte*>(text.data()), text.size());
  write_atomically(path, {&whole, 1}, own_file_mode);
}

}  // namespace ingot
