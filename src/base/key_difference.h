// What two keys of the cache of plans differ in, for people: keys are lines of text (pipeline_cache.cpp writes them), and the lines of a graph name values by numbers, which
// all move when an operator comes or goes.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

// The lines that one key has and the other has not: "- " before those of `from`, "+ " before those of `to`, each in its order. Numbers of values and of lines of code are left
// out of a comparison; where keys differ in nothing else, the lines that differ in these.
std::vector<std::string> differing_lines(std::string_view from, std::string_view to);

// The same in words: the version, each option, size, input, weight and operator that `to` (here) and `from` (there) do not have in common.
std::vector<std::string> explain_difference(std::string_view from, std::string_view to);

}  // namespace ingot
