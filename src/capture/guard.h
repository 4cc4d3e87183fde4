// Conditions on sizes as torch.export writes them with a program: Python text, "L['x'].size()[0]*L['x'].size()[1] >= 12".
#pragma once
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "capture/expression.h"

namespace ingot::capture {

// The conditions that all hold. `resolve` gives a size for its text, "L['x'].size()[0]"; nullopt if it is unknown. nullopt for a text of another form, such as
// arithmetic on fractions.
std::optional<std::vector<Condition>> parse_guard(std::string_view text, const std::function<std::optional<ir::Dim>(std::string_view)>& resolve);

}  // namespace ingot::capture
