// Symbolic sizes as torch writes them: sympy's srepr, "Add(Symbol('s0', integer=True), Integer(1))".
#pragma once
#include <functional>
#include <optional>
#include <string_view>

#include "ir/dim.h"

namespace ingot::capture {

// `resolve` gives the size a symbol's name stands for. Error (format) when the text is broken, (unsupported) when a
// function has no meaning as a size.
ir::Dim parse_size(std::string_view srepr, const std::function<ir::Dim(std::string_view)>& resolve);

// A condition on sizes, "Le(Symbol('s0'), Integer(64))", as left <= right, left == right or left != right. nullopt when it is of another form.
struct Condition {
  ir::Dim left, right;
  bool equal = false, unequal = false;
};
std::optional<Condition> parse_condition(std::string_view srepr, const std::function<ir::Dim(std::string_view)>& resolve);

}  // namespace ingot::capture
