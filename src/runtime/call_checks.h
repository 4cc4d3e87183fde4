// What a call's tensors must be for a function of a plan. Errors (invalid_input) say what to give instead.
#pragma once
#include <span>

#include "runtime/program.h"

namespace ingot::runtime {

// Number, dtypes and ranks of the inputs.
void check_inputs(const LoadedFunction&, std::span<const HostTensor> inputs);
// The sizes of `symbols`, as read from the inputs, are in the ranges that the plan was built for.
void check_ranges(const LoadedFunction&, std::span<const int64_t> symbols, std::span<const HostTensor> inputs);
// The inputs' sizes are those that follow from the symbols.
void check_sizes(const LoadedFunction&, std::span<const int64_t> symbols, std::span<const HostTensor> inputs, const Resolved&);
void check_outputs(const LoadedFunction&, std::span<const HostTensor> outputs);
// `open`: its sizes are read from data, so any are good.
void check_output(const plan::Binding&, const HostTensor&, std::span<const int64_t> dims, bool open);

}  // namespace ingot::runtime
