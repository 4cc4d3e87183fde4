// torch._assert_async: a check whose reason begins so, with the model's message behind.
#pragma once
#include <string_view>

namespace ingot {

constexpr std::string_view assertion = "assertion: ";

}  // namespace ingot
