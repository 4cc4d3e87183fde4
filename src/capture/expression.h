// Symbolic sizes as torch writes them: sympy's srepr, "Add(Symbol('s0', integer=True), Integer(1))".
#pragma once
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "ir/dim.h"

namespace ingot::capture {

// `resolve` gives the size a symbol's name stands for, and adds to `symbols`, whose ranges hold, those that it makes. Error (format) when the text is broken, (unsupported) when a
// function has no meaning as a size.
ir::Dim parse_size(std::string_view srepr, const std::function<ir::Dim(std::string_view)>& resolve, const std::vector<ir::Symbol>& symbols);

// A condition on sizes: left <= right, left == right or left != right; or, if `either` has entries, that all conditions of one of its lists hold.
struct Condition {
  ir::Dim left = 0, right = 0;
  bool equal = false, unequal = false;
  std::vector<std::vector<Condition>> either = {};
};
// The conditions that all hold, from "Le(Symbol('s0'), Integer(64))" or And, Or and Not of such. nullopt when it is of another form.
std::optional<std::vector<Condition>> parse_condition(std::string_view srepr, const std::function<ir::Dim(std::string_view)>& resolve, const std::vector<ir::Symbol>& symbols);
// A number that is 0 where all of the conditions hold, and more elsewhere.
ir::Dim broken(const std::vector<Condition>&);

}  // namespace ingot::capture
