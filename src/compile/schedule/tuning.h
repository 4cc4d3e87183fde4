// The numbers by which steps are ordered, joined and copied; the launch of a step and rates are the target's (base/machine.h). the number of a copy by an
// Intel Xeon with AMX, `python bench/constants.py --only schedule`.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ingot::compile::schedule_tuning {

// The number of steps that are searched for equal ones, that may be moved to join two, and that one launch may have: bounds of compile time, and of a launch's parameters.
inline constexpr size_t looked_at_steps = 16, max_moved_steps = 8, max_joined_steps = 16;
// Elements of a weight or operand with strided rows from which a copy is worth its step: 8 KB of float32. From 512 and from 8,192 on, 19 bodies take 1.00 and 0.99 of the time.
inline constexpr int64_t min_copied_elements = 2048;

}  // namespace ingot::compile::schedule_tuning
