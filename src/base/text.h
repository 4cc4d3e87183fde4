// Small text functions.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace ingot {

// The candidate that a mistyped name most likely means, or "" when none is near.
std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates);
// Appends the text as a JSON string, quotes included.
void append_json_string(std::string& out, std::string_view text);

}  // namespace ingot
