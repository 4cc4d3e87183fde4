// Small text functions.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ingot {

// The candidate that a mistyped name most likely means, or "" when none is near.
std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates);
// Appends the text as a JSON string, quotes included.
void append_json_string(std::string& out, std::string_view text);
// The first byte that is not part of UTF-8 text, or is 0, which ends a text in C; nothing when all is well.
std::optional<size_t> find_bad_utf8(std::string_view text);
// Whether there are control characters in UTF-8 text: on a terminal they do things.
bool has_controls(std::string_view text);

}  // namespace ingot
