// The numbers by which values are stored or computed again; the launch of a step and rates are the target's (base/machine.h).
#pragma once
#include <cstddef>
#include <cstdint>

namespace ingot::compile::storage_tuning {

// In additions, the cost of an element at which costs saturate: such a value is never computed again. It decides nothing beyond that.
inline constexpr int dear = 1000;
// Operators of an element in additions: a division or root, a lookup, a function; additions up to which several bodies compute a value again. They are estimates.
inline constexpr int root_additions = 3, lookup_additions = 4, function_additions = 10, max_repeated_additions = 6;
// Elements that an open size counts as. Not measured.
inline constexpr int64_t unknown_size = 32;
// Elements from which writing a value and reading it again takes time compared with a launch. An estimate: 128 KB are 6 microseconds of an EPYC's memory.
inline constexpr int64_t large_value = 1 << 15;
// A value is stored if all bodies that read it have so many times its elements, as the scale of squeeze-and-excitation. An estimate.
inline constexpr int64_t repeated = 8;
// It is worth a step from so many additions on, where bodies have so many elements, and so many times its own, as the factor of a normalisation's channels
// (docs/performance-notes/operators.md: a step is 2^26 additions on a GPU). The other numbers are estimates.
inline constexpr int min_additions = 6;  // operators of an element: an estimate
inline constexpr int64_t min_body = int64_t{1} << 18, larger_body = 64;  // elements; times: estimates
// Values that are searched for a stored one, and of a body, with views: bounds of compile time and of the recursion that writes a body, in elements of a list. Not measured.
inline constexpr size_t max_searched = 32, max_values = 500;

// Operands that a kernel has in addition to its body's, at most: a GEMM's roles. A bound of a plan.
inline constexpr size_t operands_of_kernel = 10;

}  // namespace ingot::compile::storage_tuning
