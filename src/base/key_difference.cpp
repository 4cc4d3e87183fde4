#include "base/key_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

namespace ingot {

namespace {

using Sides = std::array<std::vector<std::string>, 2>;

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    lines.emplace_back(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(text.size(), lines.back().size() + 1));
  }
  return lines;
}

// "%7 = call(%6, %0) {...} : f32[3] @0" without its numbers: "% = call(%, %) {...} : f32[3]".
std::string without_numbers(const std::string& line) {
  if (line.empty() || (line[0] != '%' && !line.starts_with("output %"))) return line;
  std::string out;
  bool text = false;  // between quotes
  for (size_t i = 0; i < line.size(); ++i) {
    text ^= line[i] == '"' && (i == 0 || line[i - 1] != '\\');
    if (!text && line[i] == '@') {
      while (!out.empty() && out.back() == ' ') out.pop_back();
    } else {
      out += line[i];
    }
    if (!text && (line[i] == '%' || line[i] == '@')) {
      while (i + 1 < line.size() && line[i + 1] >= '0' && line[i + 1] <= '9') ++i;
    }
  }
  return out;
}

// The lines of each side that the other lacks; a line counts as often as it occurs.
template <class Of>
Sides differing(const Sides& sides, const Of& compared) {
  Sides found;
  for (size_t side : {0, 1}) {
    std::unordered_map<std::string, size_t> there;
    for (const std::string& line : sides[1 - side]) ++there[compared(line)];
    for (const std::string& line : sides[side]) {
      if (auto same = there.find(compared(line)); same != there.end() && same->second > 0) {
        --same->second;
      } else {
        found[side].push_back(line);
      }
    }
  }
  return found;
}

Sides differing(std::string_view from, std::string_view to) {
  const Sides sides = {lines_of(from), lines_of(to)};
  Sides found = differing(sides, without_numbers);
  return found[0].empty() && found[1].empty() ? differing(sides, [](const std::string& line) { return line; }) : found;
}

// What stands between `begin` and the next `end`; nothing where `begin` does not stand there.
std::optional<std::string> between(const std::string& line, std::string_view begin, std::string_view end) {
  const size_t at = line.find(begin);
  if (at == std::string::npos) return std::nullopt;
  const size_t from = at + begin.size();
  return line.substr(from, line.find(end, from) - from);
}

// What a line is about, and what it says of that: {"option weights", "embed"}, {"operator aten.relu.default", "..."}.
std::pair<std::string, std::string> parts(const std::string& line) {
  if (line.starts_with("library: ")) return {"the library", line.substr(9)};
  if (line.starts_with("signature: ")) return {"the structure of inputs and results", line.substr(11)};
  if (line.starts_with("origin ")) return {"the lines of code that operators come from", line.substr(7)};
  if (line.starts_with("option ")) return {line.substr(0, line.find(": ")), line.substr(std::min(line.find(": ") + 2, line.size()))};
  if (line.starts_with("symbol ")) {
    const size_t end = line.find(' ', 7);
    return {"size " + line.substr(7, end - 7), "least, usual and largest" + line.substr(std::min(end, line.size()))};
  }
  const std::string plain = without_numbers(line), type = plain.substr(std::min(plain.rfind(" : "), plain.size() - 1) + (plain.rfind(" : ") == std::string::npos ? 1 : 3));
  for (std::string_view kind : {"input", "weight"}) {
    if (plain.starts_with(fmt::format("% = {}(", kind))) return {fmt::format("{} {}", kind, between(line, "name=\"", "\"").value_or("")), type};
  }
  if (auto target = between(line, "target=\"", "\"")) return {"operator " + *target, plain.substr(plain.find('{') == std::string::npos ? 0 : plain.find('{'))};
  return {"", line};
}

// An operator's attributes, without the types of its results, which follow from its operands.
std::string attributes(const std::string& said) { return said.substr(0, said.rfind("} : ")); }

// The numbers and texts that only one of two operators' attributes has: {"eps=1e-05", "eps=1e-06"}.
std::array<std::string, 2> differing_attributes(const std::string& a, const std::string& b) {
  Sides words;
  for (size_t side : {0, 1}) {
    const std::string& text = side == 0 ? a : b;
    int depth = 0;
    std::string word;
    for (char c : text.substr(std::min<size_t>(1, text.size()))) {
      depth += (c == '[' || c == '(') - (c == ']' || c == ')');
      if (c == ',' && depth == 0) {
        words[side].push_back(std::exchange(word, {}));
      } else if (c != ' ' || !word.empty()) {
        word += c;
      }
    }
    words[side].push_back(word);
  }
  words = differing(words, [](const std::string& word) { return word; });
  return {fmt::format("{}", fmt::join(words[0], ", ")), fmt::format("{}", fmt::join(words[1], ", "))};
}

std::string shown(const std::vector<std::string>& said) {
  if (said.size() == 1) return said[0].empty() ? "nothing" : said[0];
  return fmt::format("{} times", said.size());
}

// One operator's lines: how many there are more on one side, or in which attributes they differ; "" where their types alone do.
std::string operators(const std::string& subject, const Sides& said) {
  if (said[0].size() != said[1].size())
    return said[0].size() < said[1].size() ? fmt::format("{}: {} more here", subject, said[1].size() - said[0].size())
                                           : fmt::format("{}: {} more there", subject, said[0].size() - said[1].size());
  const Sides other = differing(said, attributes);
  if (other[0].empty()) return "";
  const auto [there, here] = differing_attributes(attributes(other[0][0]), attributes(other[1][0]));
  return fmt::format("{}: {} there, {} here{}", subject, there.empty() ? "nothing" : there, here.empty() ? "nothing" : here,
                     other[0].size() > 1 ? fmt::format(" (and {} more of them)", other[0].size() - 1) : "");
}

}  // namespace

std::vector<std::string> differing_lines(std::string_view from, std::string_view to) {
  const Sides sides = differing(from, to);
  std::vector<std::string> found;
  for (const std::string& line : sides[0]) found.push_back("- " + line);
  for (const std::string& line : sides[1]) found.push_back("+ " + line);
  return found;
}

std::vector<std::string> explain_difference(std::string_view from, std::string_view to) {
  const Sides lines = differing(from, to);
  std::vector<std::string> order, found;
  std::map<std::string, Sides> subjects;
  for (size_t side : {0, 1}) {
    for (const std::string& line : lines[side]) {
      auto [subject, said] = parts(line);
      if (!subjects.contains(subject)) order.push_back(subject);
      subjects[subject][side].push_back(std::move(said));
    }
  }
  size_t follow = 0;
  for (const std::string& subject : order) {
    const Sides& said = subjects[subject];
    if (subject.empty()) continue;
    if (subject.starts_with("operator ")) {
      const std::string text = operators(subject, said);
      text.empty() ? void(follow += differing(said, [](const std::string& line) { return line; })[0].size()) : found.push_back(text);
    } else if (subject.starts_with("the ") && subject != "the library") {
      found.push_back(subject);
    } else if (said[0].empty() || said[1].empty()) {
      found.push_back(fmt::format("{}: only {}, {}", subject, said[0].empty() ? "here" : "there", shown(said[said[0].empty() ? 1 : 0])));
    } else {
      found.push_back(fmt::format("{}: {} there, {} here", subject, shown(said[0]), shown(said[1])));
    }
  }
  if (follow > 0) found.push_back(fmt::format("sizes and types of {} operators, which follow", follow));
  // What no words are for: an operator that reads another value, the order of results.
  if (found.empty()) found = differing_lines(from, to);
  return found;
}

}  // namespace ingot
