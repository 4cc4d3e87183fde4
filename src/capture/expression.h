// Symbolic sizes as torch writes them: sympy's srepr, "Add(Symbol('s0', integer=True), Integer(1))".
#pragma once
#include <functional>
#include <string_view>

#include "ir/dim.h"

namespace ingot::capture {

// `resolve` gives the size a symbol's name stands for. Error (format) when the text is broken, (unsupported) when a
// function has no meaning as a size.
ir::Dim parse_size(std::string_view srepr, const std::function<ir::Dim(std::string_view)>& resolve);

}  // namespace ingot::capture
