// Checks of values, which a function has in addition to those of sizes. The reason of one begins so.
#pragma once
#include <cstdint>
#include <string_view>

namespace ingot {

// torch._assert_async: the model's message follows.
constexpr std::string_view assertion = "assertion: ";

// An algorithm on one matrix, or on a batch of them. The number is 0 if none failed, otherwise matrix_failures times the place of the first that did, plus what the algorithm says of
// it, its order. Behind are the function's name, a line break, and the text, in which '#' stands for the order.
constexpr std::string_view one_matrix = "matrix: ", matrices = "matrices: ";
constexpr int64_t matrix_failures = int64_t{1} << 32;

}  // namespace ingot
