#include "base/text.h"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace ingot {

namespace {

// Edits (insert, delete, replace) between two names.
size_t edits(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t here = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = row[j];
      row[j] = here;
    }
  }
  return row.back();
}

}  // namespace

std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates) {
  std::string_view best;
  size_t fewest = std::max<size_t>(2, name.size() / 2) + 1;
  for (std::string_view c : candidates) {
    if (size_t n = edits(name, c); n < fewest) {
      fewest = n;
      best = c;
    }
  }
  return best;
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      out += escaped;
    } else {
      out += c;
    }
  }
  out += '"';
}

std::optional<size_t> find_bad_utf8(std::string_view text) {
  auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  for (size_t i = 0; i < text.size();) {
    const unsigned first = byte(i);
    if (first > 0 && first < 0x80) {
      ++i;
      continue;
    }
    const size_t more = first >= 0xc2 && first <= 0xdf ? 1 : first >= 0xe0 && first <= 0xef ? 2 : first >= 0xf0 && first <= 0xf4 ? 3 : 0;
    bool good = more > 0;
    for (size_t k = 1; k <= more; ++k) good = good && (byte(i + k) & 0xc0) == 0x80;
    const unsigned second = byte(i + 1);  // no longer form than needed, no surrogates, nothing above U+10FFFF
    good = good && !(first == 0xe0 && second < 0xa0) && !(first == 0xed && second > 0x9f) && !(first == 0xf0 && second < 0x90) && !(first == 0xf4 && second > 0x8f);
    if (!good) return i;
    i += more + 1;
  }
  return std::nullopt;
}

bool has_controls(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool second_set = c == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;  // U+0080 to U+009F
    if (c < 0x20 || c == 0x7f || second_set) return true;
  }
  return false;
}

}  // namespace ingot
